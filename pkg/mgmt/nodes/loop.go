package nodes

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
)

// signal wakes one loop. Its zero value is not usable; see newSignal.
type signal struct{ c chan struct{} }

func newSignal() signal { return signal{make(chan struct{}, 1)} }

func (s signal) nudge() { nudge(s.c) }

// loop runs pass whenever something may have changed, and every so often
// although nothing seems to have.
type loop struct {
	name string
	log  *slog.Logger
	// pass brings things up to date. It may return when it wants to run again
	// although nothing changes; zero: only at the next full pass.
	pass func(ctx context.Context, full bool) (time.Time, error)
	wake signal
	// settle is how long to wait after a wake-up for more to come.
	settle time.Duration
	every  time.Duration // between full passes
}

// run blocks until ctx ends. A pass that fails is repeated with back-off.
func (l loop) run(ctx context.Context) {
	back := control.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second}
	var full time.Time // of the next full pass
	for ctx.Err() == nil {
		now := time.Now()
		again, err := l.pass(ctx, !now.Before(full))
		switch {
		case err != nil && ctx.Err() == nil:
			l.log.Warn("pass failed", "unit", l.name, "err", err)
			again = time.Now().Add(back.Next()) // a full pass is due still
		case err == nil:
			back.Reset()
			if !now.Before(full) {
				full = now.Add(l.every)
			}
			if again.IsZero() || again.After(full) {
				again = full
			}
		}
		l.wait(ctx, again, time.Since(now))
	}
}

// wait returns at that time, or a moment after a wake-up.
func (l loop) wait(ctx context.Context, until time.Time, took time.Duration) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-l.wake.c:
		// A pass that is dear is not run at every change.
		pause(ctx, max(l.settle, min(2*took, time.Second)))
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
