package nodes

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPassThatFailsIsNotRunOverAndOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := 0
		l := loop{name: "x", log: slog.New(slog.DiscardHandler), wake: newSignal(), every: time.Hour,
			pass: func(context.Context, bool) (time.Time, error) {
				passes++
				return time.Time{}, errors.New("no")
			}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.run(ctx)
		if passes < 3 || passes > 60 {
			t.Errorf("%d passes in a minute", passes)
		}
	})
}

func TestAPassRunsWhenItSaysAndAllOfItEverySoOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full, all int
		l := loop{name: "x", log: slog.New(slog.DiscardHandler), wake: newSignal(), every: time.Minute,
			pass: func(_ context.Context, isFull bool) (time.Time, error) {
				all++
				if isFull {
					full++
				}
				return time.Now().Add(10 * time.Second), nil
			}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute-time.Second)
		defer cancel()
		l.run(ctx)
		if full != 10 || all != 60 {
			t.Errorf("%d passes, %d of them full", all, full)
		}
	})
}
