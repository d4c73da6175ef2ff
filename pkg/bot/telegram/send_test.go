package telegram

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMessagesKeepTelegramsLimits: thirty a second in all, one a second to each
// chat after a few, twenty a minute to a group.
func TestMessagesKeepTelegramsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{answer: quiet}
		c := newClient(t.Context(), t, l, Settings{})
		var wg sync.WaitGroup
		for chat := range int64(60) {
			wg.Go(func() {
				for range 6 {
					if _, err := c.Send(t.Context(), chat+1, Message{Text: "x"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 25 {
			wg.Go(func() {
				if _, err := c.Send(t.Context(), -100, Message{Text: "x"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		calls := l.of("sendMessage")
		all := map[float64][]time.Time{0: nil}
		for _, a := range calls {
			chat := a.params["chat_id"].(float64)
			all[0] = append(all[0], a.at)
			all[chat] = append(all[chat], a.at)
		}
		if n := most(all[0], time.Second); n > 31 || len(calls) != 385 {
			t.Errorf("%d of %d messages in one second", n, len(calls))
		}
		for chat, at := range all {
			if n := most(at, time.Minute); chat < 0 && n > 24 {
				t.Errorf("%d messages in a minute to a group", n)
			}
			if n := most(at, 5*time.Second); chat > 0 && n > 9 {
				t.Errorf("%d messages in five seconds to a chat", n)
			}
		}
		if c.State().Sent != 385 {
			t.Errorf("%d were counted", c.State().Sent)
		}
	})
}

// most is how many of the times are in one window.
func most(at []time.Time, window time.Duration) int {
	slices.SortFunc(at, time.Time.Compare)
	n, first := 0, 0
	for i := range at {
		for at[i].Sub(at[first]) >= window {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

func TestAWaitThatTelegramWantsHoldsBackThatChatAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		l := &line{answer: func(a asked) (int, string, error) {
			if a.params["chat_id"].(float64) == 1 && time.Since(begun) < 30*time.Second {
				return 429, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 30","parameters":{"retry_after":30}}`, nil
			}
			return quiet(a)
		}}
		c := newClient(t.Context(), t, l, Settings{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if id, err := c.Send(t.Context(), 1, Message{Text: "x"}); err != nil || id != 7 {
				t.Errorf("%d, %v", id, err)
			}
			if d := time.Since(begun); d < 30*time.Second || d > 40*time.Second {
				t.Errorf("it was sent after %v", d)
			}
		})
		wg.Go(func() {
			if _, err := c.Send(t.Context(), 2, Message{Text: "x"}); err != nil || time.Since(begun) > time.Second {
				t.Errorf("to another after %v: %v", time.Since(begun), err)
			}
		})
		synctest.Wait()
		time.Sleep(2 * time.Second)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.Send(short, 1, Message{Text: "x"}); FailureOf(err) != Limited || RetryAfter(err) < 20*time.Second {
			t.Errorf("with less time: %v, again after %v", err, RetryAfter(err))
		}
		wg.Wait()
	})
}

func TestWhatHasNoAnswerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := &line{answer: func(a asked) (int, string, error) {
			if n++; n < 3 {
				return 0, "", errors.New("reset")
			}
			return quiet(a)
		}}
		c := newClient(t.Context(), t, l, Settings{})
		if _, err := c.Send(t.Context(), 1, Message{Text: "x"}); err != nil || n != 3 {
			t.Errorf("after %d tries: %v", n, err)
		}
		n = -100
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Send(short, 1, Message{Text: "x"}); FailureOf(err) != Network || n != -100+7 {
			t.Errorf("%d tries in a minute: %v", n+100, err)
		}
	})
}

func TestAnswersThatAreNoFailures(t *testing.T) {
	refuse := func(text string) *line {
		return &line{answer: fixed(400, `{"ok":false,"error_code":400,"description":"Bad Request: `+text+`"}`)}
	}
	for text, want := range map[string]bool{
		"message is not modified: specified new": true, "message to edit not found": false,
		"message can't be edited": false, "there is no text in the message to edit": false,
	} {
		shown, err := newClient(t.Context(), t, refuse(text), Settings{}).Edit(t.Context(), 1, 2, Message{Text: "x"})
		if err != nil || shown != want {
			t.Errorf("%s: %v, %v", text, shown, err)
		}
	}
	if _, err := newClient(t.Context(), t, refuse("message is too long"), Settings{}).Edit(t.Context(), 1, 2, Message{}); FailureOf(err) != Refused {
		t.Errorf("too long: %v", err)
	}
	if err := newClient(t.Context(), t, refuse("message to delete not found"), Settings{}).Delete(t.Context(), 1, 2); err != nil {
		t.Errorf("deleted before: %v", err)
	}
	if _, err := newClient(t.Context(), t, refuse("chat not found"), Settings{}).Send(t.Context(), 1, Message{}); FailureOf(err) != Gone {
		t.Errorf("no chat: %v", err)
	}
}
