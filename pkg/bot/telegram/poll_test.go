package telegram

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPollingNeverSpins holds B-01: whatever the API does, there are few calls, and
// none before it wants one.
func TestPollingNeverSpins(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answer  func(asked) (int, string, error)
		failure Failure
		most    int // calls within ten seconds
		hour    int // within an hour
	}{
		{"somebody else polls", fixed(409, `{"ok":false,"error_code":409,"description":"Conflict: terminated by other getUpdates request"}`), Conflict, 3, 70},
		{"too many calls", fixed(429, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 30","parameters":{"retry_after":30}}`), Limited, 1, 70},
		{"a wait that is no number", fixed(429, `{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":"soon"}}`), Server, 3, 70},
		{"a page of a proxy", fixed(502, "<html>Bad Gateway</html>"), Server, 3, 70},
		{"a page that claims to be well", fixed(200, "<html>Log in</html>"), Server, 3, 70},
		{"an answer of another kind", fixed(200, `{"ok":true,"result":{"a":1}}`), Server, 3, 70},
		{"a fault of the API's", fixed(500, `{"ok":false,"error_code":500,"description":"Internal Server Error"}`), Server, 3, 70},
		{"a token that is not known", fixed(401, `{"ok":false,"error_code":401,"description":"Unauthorized"}`), Token, 3, 70},
		{"nobody there", func(asked) (int, string, error) { return 0, "", errors.New("dial tcp: refused") }, Network, 3, 70},
		{"no answer at all", func(asked) (int, string, error) { return 0, "", errHangs }, Network, 3, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &line{answer: tt.answer}
				ctx, cancel := context.WithCancel(t.Context())
				c := newClient(ctx, t, l, Settings{})
				var wg sync.WaitGroup
				wg.Go(func() { c.Poll(ctx, func(Update) {}) })
				calls := func() (n int) { l.with(func() { n = len(l.calls) }); return n }
				time.Sleep(10 * time.Second)
				if n := calls(); n > tt.most {
					t.Errorf("%d calls within ten seconds, want at most %d", n, tt.most)
				}
				time.Sleep(time.Hour)
				if n := calls(); n > tt.hour || n < 20 {
					t.Errorf("%d calls within an hour, want 20 to %d", n, tt.hour)
				}
				if s := c.State(); s.Failure != tt.failure || s.Working || s.Failures < 10 || s.Retry.IsZero() {
					t.Errorf("the state is %+v", s)
				}
				l.with(func() { l.answer = quiet })
				time.Sleep(2 * time.Minute)
				if s := c.State(); !s.Working || s.Failures != 0 || s.Username != "mesh_bot" {
					t.Errorf("after it recovered the state is %+v", s)
				}
				before := calls()
				time.Sleep(10 * time.Minute)
				if n := calls() - before; n > 13 {
					t.Errorf("%d calls in ten quiet minutes", n)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

func fixed(code int, body string) func(asked) (int, string, error) {
	return func(asked) (int, string, error) { return code, body, nil }
}

// TestAConflictIsTakenForTheLastPollersAtFirst holds B-09.
func TestAConflictIsTakenForTheLastPollersAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflict := fixed(409, `{"ok":false,"error_code":409,"description":"Conflict: terminated by other getUpdates request"}`)
		l := &line{answer: func(a asked) (int, string, error) {
			if a.method == "getMe" {
				return quiet(a)
			}
			return conflict(a)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var seen []Failure
		c := newClient(ctx, t, l, Settings{Changed: func(s State) {
			mu.Lock()
			defer mu.Unlock()
			if len(seen) == 0 || seen[len(seen)-1] != s.Failure {
				seen = append(seen, s.Failure)
			}
		}})
		var wg sync.WaitGroup
		wg.Go(func() { c.Poll(ctx, func(Update) {}) })
		time.Sleep(80 * time.Second)
		if f := c.State().Failure; f != 0 {
			t.Errorf("after 80 seconds the failure is %v", f)
		}
		time.Sleep(2 * time.Minute)
		if f := c.State().Failure; f != Conflict {
			t.Errorf("after 200 seconds the failure is %v", f)
		}
		turn := 0
		inTurn := func(a asked) (int, string, error) {
			if turn++; turn%2 == 0 {
				return conflict(a)
			}
			return quiet(a)
		}
		l.with(func() { l.answer = inTurn })
		before := len(l.of("getUpdates"))
		time.Sleep(10 * time.Minute)
		if n := len(l.of("getUpdates")) - before; n > 24 {
			t.Errorf("%d polls in ten minutes", n)
		}
		l.with(func() { l.answer = quiet })
		time.Sleep(3 * time.Minute)
		cancel()
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []Failure{0, Conflict, 0}; !slices.Equal(seen, want) {
			t.Errorf("failures were %v, want %v", seen, want)
		}
	})
}

func TestAWebhookThatWasSetIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := true
		l := &line{}
		l.answer = func(a asked) (int, string, error) {
			set = set && a.method != "deleteWebhook"
			if a.method == "getUpdates" && set {
				return 409, `{"ok":false,"error_code":409,"description":"Conflict: can't use getUpdates method while webhook is active"}`, nil
			}
			return quiet(a)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(ctx, t, l, Settings{})
		var wg sync.WaitGroup
		wg.Go(func() { c.Poll(ctx, func(Update) {}) })
		time.Sleep(5 * time.Second)
		if !c.State().Working {
			t.Errorf("the state is %+v", c.State())
		}
		cancel()
		wg.Wait()
	})
}

// TestOtherAddressesAreUsedWhileTheFirstFails: and the first again, later.
func TestOtherAddressesAreUsedWhileTheFirstFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		l := &line{answer: func(a asked) (int, string, error) {
			if down && a.host == "first.example" {
				return 0, "", errors.New("refused")
			}
			return quiet(a)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(ctx, t, l, Settings{APIs: []string{"https://first.example", "https://second.example/x/"}})
		var wg sync.WaitGroup
		wg.Go(func() { c.Poll(ctx, func(Update) {}) })
		time.Sleep(15 * time.Second)
		if s := c.State(); !s.Working || s.API != 1 {
			t.Errorf("the state is %+v", s)
		}
		time.Sleep(20 * time.Minute) // the first is tried meanwhile
		if s := c.State(); !s.Working && s.Failures == 0 {
			t.Errorf("the state is %+v", s)
		}
		l.with(func() { down = false })
		time.Sleep(20 * time.Minute)
		if s := c.State(); !s.Working || s.API != 0 {
			t.Errorf("when the first was back the state is %+v", s)
		}
		cancel()
		wg.Wait()
	})
}

// TestUpdatesAreAcknowledgedWhenTheyAreHandled: one that takes long keeps back
// neither the others, nor is it forgotten.
func TestUpdatesAreAcknowledgedWhenTheyAreHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := []int{9, 10, 11, 12}
		l := &line{}
		l.answer = func(a asked) (int, string, error) {
			if a.method != "getUpdates" {
				return quiet(a)
			}
			offset, _ := a.params["offset"].(float64)
			queue = slices.DeleteFunc(queue, func(id int) bool { return id < int(offset) })
			if len(queue) == 0 {
				return quiet(a)
			}
			var body strings.Builder
			for _, id := range queue {
				message := `{"message_id":1,"text":"x"}`
				if id == 9 {
					message = `"not one"`
				}
				body.WriteString(fmt.Sprintf(`,{"update_id":%d,"message":%s}`, id, message))
			}
			return 200, `{"ok":true,"result":[` + body.String()[1:] + `]}`, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(ctx, t, l, Settings{})
		taken := map[int]int{}
		var slow func()
		var wg sync.WaitGroup
		wg.Go(func() {
			c.Poll(ctx, func(u Update) {
				l.with(func() { taken[u.ID]++ })
				if u.ID == 11 {
					l.with(func() { slow = u.Done })
				} else {
					u.Done()
				}
			})
		})
		left := func() (ids []int) { l.with(func() { ids = slices.Clone(queue) }); return ids }
		time.Sleep(20 * time.Second)
		if want := []int{11, 12}; !slices.Equal(left(), want) {
			t.Errorf("not acknowledged are %v, want %v", left(), want)
		}
		if n := len(l.of("getUpdates")); n > 75 {
			t.Errorf("%d polls within 20 seconds", n)
		}
		l.with(func() { queue = append(queue, 13) })
		time.Sleep(time.Second)
		l.with(func() { slow() })
		time.Sleep(time.Second)
		if len(left()) != 0 {
			t.Errorf("not acknowledged are %v", left())
		}
		l.with(func() { queue = append(queue, 3) }) // after a quiet week numbers may begin anew, lower
		time.Sleep(2 * time.Minute)
		cancel()
		wg.Wait()
		if len(left()) != 0 || c.State().Ignored != 1 {
			t.Errorf("not acknowledged are %v, and %d were ignored", left(), c.State().Ignored)
		}
		if want := map[int]int{10: 1, 11: 1, 12: 1, 13: 1, 3: 1}; !maps.Equal(taken, want) {
			t.Errorf("updates were handed out so often: %v, want %v", taken, want)
		}
	})
}

func TestFewUpdatesAreInWorkAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := 1
		l := &line{}
		l.answer = func(a asked) (int, string, error) {
			if a.method != "getUpdates" {
				return quiet(a)
			}
			var body strings.Builder
			for range batch {
				body.WriteString(fmt.Sprintf(`,{"update_id":%d}`, next))
				next++
			}
			return 200, `{"ok":true,"result":[` + body.String()[1:] + `]}`, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(ctx, t, l, Settings{})
		open := 0
		var wg sync.WaitGroup
		wg.Go(func() { c.Poll(ctx, func(Update) { open++ }) })
		time.Sleep(time.Minute)
		cancel()
		wg.Wait()
		if open < maxOpen || open >= maxOpen+batch {
			t.Errorf("%d updates are in work", open)
		}
	})
}
