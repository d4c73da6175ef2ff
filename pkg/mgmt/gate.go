package mgmt

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// gate bounds what strangers can make the ports do: how often an address may
// connect, how many handshakes are under way, how many connections are open.
type gate struct {
	rates   Rates
	arrived *limiter[netip.Addr]
	turned  *prometheus.CounterVec // by why

	mu      sync.Mutex // guards the counts
	open    int
	shaking int
	by      map[netip.Addr]int // handshakes under way, by address
}

func newGate(r Rates, turned *prometheus.CounterVec) *gate {
	return &gate{
		rates:   r,
		arrived: newLimiter[netip.Addr](rate.Limit(r.Connections), r.ConnectionsBurst),
		turned:  turned,
		by:      make(map[netip.Addr]int),
	}
}

// enter counts a new connection in, or says that it is one too many.
func (g *gate) enter(from netip.Addr, now time.Time) (*passage, bool) {
	a := block(from)
	if !g.arrived.allow(a, now) {
		return nil, g.turn("rate")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.open >= g.rates.Open:
		return nil, g.turn("open")
	// No address may take more than a quarter of the handshakes, or a few slow
	// ones would keep everybody else out.
	case g.shaking >= g.rates.Handshakes, g.by[a] >= max(1, g.rates.Handshakes/4):
		return nil, g.turn("handshakes")
	}
	g.open++
	g.shaking++
	g.by[a]++
	return &passage{
		shaken: sync.OnceFunc(func() { g.shaken(a) }),
		closed: sync.OnceFunc(g.closed),
	}, true
}

func (g *gate) turn(why string) bool {
	g.turned.WithLabelValues(why).Inc()
	return false
}

// refused counts a connection whose handshake or identity did not pass.
func (g *gate) refused() { g.turned.WithLabelValues("identity").Inc() }

func (g *gate) shaken(a netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shaking--
	if g.by[a]--; g.by[a] == 0 {
		delete(g.by, a)
	}
}

func (g *gate) closed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
}

// passage is one connection on its way through the gate. Each func counts once.
type passage struct {
	shaken func() // the handshake is over
	closed func() // the connection is
}
