package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// pace is how long things take, and how often they happen.
type pace struct {
	request time.Duration // one request, with its answer
	watch   time.Duration // one watch at most; the API is asked to end it before
	quiet   time.Duration // a watch without any event or bookmark
	settled time.Duration // a watch that stood so long was no failure
	min     time.Duration // of the back-off
	max     time.Duration
	gather  time.Duration // changes that come together are looked at together
	again   time.Duration // what was refused is tried again
	beat    time.Duration // a report although nothing changed
	logs    time.Duration // the lines of a pod are asked for again
	// fight bounds how often what others change is put right, for one object.
	fight    int
	fightFor time.Duration
	deadline time.Duration // of a DaemonSet that says none
	fullLook time.Duration // the version, and what no watch shows
}

func usual() pace {
	return pace{
		request: 10 * time.Second, watch: 8 * time.Minute, quiet: 150 * time.Second, settled: 10 * time.Second,
		min: time.Second, max: time.Minute, gather: 200 * time.Millisecond, again: time.Minute,
		beat: 30 * time.Second, logs: 30 * time.Second, fight: 3, fightFor: time.Minute,
		deadline: 10 * time.Minute, fullLook: 5 * time.Minute,
	}
}

// backoff spreads attempts: each wait is random between half of a bound and the whole
// of it, and the bound doubles.
type backoff struct {
	min, max time.Duration
	tries    int
}

// next is how long to wait; an API that asked to be left alone is, for longer.
func (b *backoff) next(err error) time.Duration {
	limit := b.max
	if b.min<<b.tries < b.max {
		limit = b.min << b.tries
		b.tries++
	}
	d := limit/2 + rand.N(limit/2+1)
	if l, ok := errors.AsType[*limitedError](err); ok {
		d = max(d, l.after+rand.N(limit))
	}
	return d
}

func (b *backoff) reset() { b.tries = 0 }

func (b *backoff) wait(ctx context.Context, err error) {
	t := time.NewTimer(b.next(err))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
