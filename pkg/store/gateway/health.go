package gateway

import (
	"slices"
	"sync"
	"time"
)

const (
	// tripAfter failures in a row, none of them in between answered, a server
	// counts as gone; after so many lost races it is doubtful.
	tripAfter = 3
	// tripFor is how long it counts as gone. A probe renews that or ends it sooner.
	tripFor = 2 * time.Second
	// window is how many of its last answers say how long a server usually takes.
	window = 64
	// shortestHedge is how long a server may take however quick it usually is.
	shortestHedge = 20 * time.Millisecond
)

// health is how a server has answered lately.
//
//	good ── lost tripAfter races, or failed once ──▶ doubtful: asked last
//	  ▲ ▲                                                │
//	  │ └──────────────── answered ──────────────────────┤ failed tripAfter times
//	  └────────────────── answered ◀── gone: only probed ◀┘
type health struct {
	mu         sync.Mutex // guards the rest
	failures   int        // in a row
	lost       int        // races, in a row
	until      time.Time  // gone until then
	leaderless bool       // as its last answer said
	answeredAt time.Time

	recent []time.Duration // ring of window times, of answers and lost races
	next   int             // place in the ring
	usual  time.Duration   // 95th percentile of recent; 0: none yet
	near   time.Duration   // lower quartile, which a slow handshake does not move
}

// answered records an answer and says whether the server was gone before.
func (h *health) answered(took time.Duration, leader bool) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	news = h.failures >= tripAfter
	h.failures, h.lost, h.until = 0, 0, time.Time{}
	h.leaderless, h.answeredAt = !leader, time.Now()
	h.tookLocked(took)
	return news
}

// failed says whether with this failure the server is gone.
func (h *health) failed() (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures++; h.failures >= tripAfter {
		h.until = time.Now().Add(tripFor)
	}
	return h.failures == tripAfter
}

// overtaken records that a server that was asked later answered first, when
// this one had been silent for so long.
func (h *health) overtaken(silent time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost++
	h.tookLocked(silent)
}

// doubt makes the server the last to be asked until it answers.
func (h *health) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = max(h.lost, tripAfter)
}

func (h *health) gone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until)
}

// quiet says whether a probe would tell something: the server is in doubt or
// nobody has asked it for a while.
func (h *health) quiet(idle time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures > 0 || h.lost > 0 || h.leaderless || time.Since(h.answeredAt) >= idle
}

// rank is what a server is to be asked after: those of a lower one. Servers
// that are about equally near have the same.
func (h *health) rank() (standing int, distance time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for distance = time.Millisecond; distance < h.near; {
		distance *= 2
	}
	switch {
	case h.failures > 0 || h.lost >= tripAfter || h.answeredAt.IsZero():
		return doubtful, distance
	case h.leaderless:
		return leaderless, distance
	}
	return good, distance
}

const (
	good = iota
	leaderless
	doubtful // silent of late, or never heard
)

// patience is how long to wait for the server before another is asked too.
func (h *health) patience(most time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.usual == 0 {
		return most
	}
	return min(max(h.usual, shortestHedge), most)
}

func (h *health) tookLocked(d time.Duration) {
	if len(h.recent) < window {
		h.recent = append(h.recent, d)
	} else {
		h.recent[h.next] = d
	}
	h.next = (h.next + 1) % window
	// Sorting now and then is enough.
	if h.next%8 == 0 || len(h.recent) < 16 {
		sorted := slices.Sorted(slices.Values(h.recent))
		h.near, h.usual = sorted[len(sorted)/4], sorted[len(sorted)*95/100]
	}
}
