package gateway

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHealth(t *testing.T) {
	const most = 150 * time.Millisecond
	standing := func(h *health) int { s, _ := h.rank(); return s }
	synctest.Test(t, func(t *testing.T) {
		h := &health{}
		if standing(h) != doubtful || h.gone() || h.patience(most) != most {
			t.Error("a server that was never heard: want it asked last and for long")
		}
		h.answered(300*time.Millisecond, true) // with the handshake
		for range 3 {
			h.answered(2*time.Millisecond, true)
		}
		if _, distance := h.rank(); distance != 2*time.Millisecond {
			t.Errorf("a near server whose handshake was slow: distance %v", distance)
		}
		for range 200 {
			h.answered(2*time.Millisecond, true)
		}
		if standing(h) != good || h.patience(most) != shortestHedge {
			t.Errorf("a quick server: standing %d, patience %v", standing(h), h.patience(most))
		}
		for i := range 200 {
			took := 2 * time.Millisecond
			if i%10 == 0 {
				took = 60 * time.Millisecond
			}
			h.answered(took, true)
		}
		if got := h.patience(most); got != 60*time.Millisecond {
			t.Errorf("one answer in ten takes 60 ms: patience %v", got)
		}
		if got := h.patience(30 * time.Millisecond); got != 30*time.Millisecond {
			t.Errorf("patience %v is above its bound", got)
		}
		h.answered(time.Millisecond, false)
		if standing(h) != leaderless {
			t.Error("without a leader: want it behind those with one")
		}
		h.answered(time.Millisecond, true)
		for range tripAfter {
			if standing(h) != good {
				t.Error("a race that was lost by chance counted")
			}
			h.overtaken(shortestHedge)
		}
		if standing(h) != doubtful || h.gone() || !h.quiet(time.Hour) {
			t.Error("after lost races: want it asked last, and probed, not given up")
		}
		for i := range tripAfter {
			if news := h.failed(); news != (i == tripAfter-1) || h.gone() != news {
				t.Errorf("failure %d: news %v, gone %v", i, news, h.gone())
			}
		}
		time.Sleep(tripFor + time.Millisecond)
		if h.gone() {
			t.Error("nobody probed it: want it asked again")
		}
		if !h.answered(time.Millisecond, true) || standing(h) != good {
			t.Error("an answer did not end it")
		}
		if h.quiet(time.Second) {
			t.Error("it answered just now")
		}
		time.Sleep(time.Second)
		if !h.quiet(time.Second) {
			t.Error("nobody asked it for a second")
		}
	})
}
