package subs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// confirmEvery is how often a quorum is asked whether this server is up to
	// date, confirmTime how long that may take.
	confirmEvery = 2 * time.Second
	confirmTime  = time.Second
	// staleAfter is how old what is known may be before clients are told.
	staleAfter = 15 * time.Second
	// trafficEvery is how often traffic is added up: it is written once a minute.
	trafficEvery = time.Minute
	trafficTime  = 20 * time.Second
)

// pulse knows how old what this server knows is, and what was moved.
type pulse struct {
	state   State
	now     func() time.Time
	on      func() bool // whether anybody can ask
	asOf    atomic.Pointer[time.Time]
	traffic atomic.Pointer[store.TrafficNow]
}

// run confirms and adds up until ctx ends.
func (p *pulse) run(ctx context.Context) error {
	var added time.Time
	for ctx.Err() == nil {
		p.confirm(ctx)
		if now := p.now(); p.on() && now.Sub(added) >= trafficEvery && p.add(ctx) {
			added = now
		}
		pause(ctx, confirmEvery)
	}
	return nil
}

// confirm asks the quorum. That it does not answer needs no word here: the
// server says so itself, and clients see the age.
func (p *pulse) confirm(ctx context.Context) {
	asked := p.now()
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	if p.state.Confirm(ctx) == nil {
		p.asOf.Store(&asked)
	}
}

// add keeps what it had when the store does not answer.
func (p *pulse) add(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, trafficTime)
	defer cancel()
	t, err := p.state.Traffic(ctx)
	if err != nil {
		return false
	}
	p.traffic.Store(&t)
	return true
}

// age returns the time of which what is known is, and whether that is too long
// ago.
func (p *pulse) age() (asOf time.Time, stale bool) {
	at := p.asOf.Load()
	if at == nil {
		return time.Time{}, true
	}
	return *at, p.now().Sub(*at) > staleAfter
}

// moved is what a device has moved, as last added up.
func (p *pulse) moved(id mesh.DeviceID) mesh.Traffic {
	if t := p.traffic.Load(); t != nil {
		return t.Devices[id].Traffic
	}
	return mesh.Traffic{}
}
