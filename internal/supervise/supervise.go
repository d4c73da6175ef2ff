// Package supervise runs the parts of a role: each starts when the one before
// is ready, and they stop in reverse order.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Unit is one part of a role.
type Unit struct {
	Name string
	// Run blocks until its context ends or it fails. It calls ready once, when
	// the next unit may start.
	Run func(ctx context.Context, ready func()) error
}

// Always adapts a part that has nothing to wait for.
func Always(run func(ctx context.Context) error) func(context.Context, func()) error {
	return func(ctx context.Context, ready func()) error {
		ready()
		return run(ctx)
	}
}

//	start a ─ready─▶ start b ─ready─▶ start c … ctx ends or a unit returns
//	stop c, wait ─▶ stop b, wait ─▶ stop a, wait ─▶ Run returns
//
// Every unit has a context of its own that is detached from ctx, because
// children of one context would all stop at once.

type running struct {
	unit   Unit
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid when done is closed
}

// Run starts the units in order and blocks until ctx ends, or a unit returns,
// whatever it returns: a part that ends early ends the role. It returns the
// joined errors of the units, nil for a clean stop.
func Run(ctx context.Context, log *slog.Logger, units ...Unit) error {
	ended := make(chan struct{}, len(units))
	var started []*running
	defer func() {
		for _, r := range started {
			r.cancel()
		}
	}()
	up := func() bool {
		for _, u := range units {
			r, ready := start(ctx, u, ended)
			started = append(started, r)
			select {
			case <-ready:
				log.Debug("unit started", "unit", u.Name)
			case <-r.done:
				return false
			case <-ctx.Done():
				return false
			}
		}
		return true
	}()
	if up {
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}
	return stop(log, started)
}

func start(ctx context.Context, u Unit, ended chan<- struct{}) (*running, <-chan struct{}) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{unit: u, cancel: cancel, done: make(chan struct{})}
	ready := make(chan struct{})
	var once bool
	go func() {
		defer func() {
			close(r.done)
			ended <- struct{}{}
		}()
		r.err = u.Run(own, func() {
			if !once {
				once = true
				close(ready)
			}
		})
	}()
	return r, ready
}

func stop(log *slog.Logger, started []*running) error {
	var errs []error
	for i := len(started) - 1; i >= 0; i-- {
		r := started[i]
		r.cancel()
		<-r.done
		log.Debug("unit stopped", "unit", r.unit.Name)
		if r.err != nil && !errors.Is(r.err, context.Canceled) {
			errs = append(errs, fmt.Errorf("%s: %w", r.unit.Name, r.err))
		}
	}
	return errors.Join(errs...)
}
