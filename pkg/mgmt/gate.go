package mgmt

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/meshctl/meshctl/internal/ratelimit"
)

// maxPerNode is how many connections one node or administrator may have open:
// a few for a node, some more for somebody's scripts.
const maxPerNode = 64

// gate bounds what others can make the ports do: how often an address may
// connect, how many handshakes are under way, how many connections are open, in
// all, of one node, and of strangers.
type gate struct {
	rates   Rates
	arrived *ratelimit.Limiter[netip.Addr]
	turned  *prometheus.CounterVec // by why

	mu      sync.Mutex // guards what follows
	open    int
	shaking list.List          // of *passage: handshakes under way, oldest first
	by      map[netip.Addr]int // of these, by address
	held    map[string]int     // connections open after that, by node; "" are strangers
}

func newGate(r Rates, turned *prometheus.CounterVec) *gate {
	return &gate{
		rates:   r,
		arrived: ratelimit.New[netip.Addr](rate.Limit(r.Connections), r.ConnectionsBurst),
		turned:  turned,
		by:      make(map[netip.Addr]int),
		held:    make(map[string]int),
	}
}

// enter counts a new connection in, or says that it is one too many. cut closes
// it: when there are too many handshakes, the one that has lasted longest ends, so
// that slow ones keep nobody out.
func (g *gate) enter(from netip.Addr, now time.Time, cut func()) (*passage, bool) {
	p := &passage{gate: g, from: ratelimit.Block(from), cut: cut}
	if !g.arrived.Allow(p.from, now) {
		return nil, g.turn("rate")
	}
	slow, ok := g.begin(p)
	if slow != nil {
		slow.cut()
	}
	return p, ok
}

// begin returns the handshake that has to end for p's.
func (g *gate) begin(p *passage) (slow *passage, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.open >= g.rates.Open:
		return nil, g.turn("open")
	// No address may take more than a quarter, or a few could end all others.
	case g.by[p.from] >= max(1, g.rates.Handshakes/4):
		return nil, g.turn("handshakes")
	case g.shaking.Len() >= g.rates.Handshakes:
		g.turn("handshakes")
		slow = g.shaking.Front().Value.(*passage)
		slow.shakenLocked()
	}
	g.open++
	g.by[p.from]++
	p.place = g.shaking.PushBack(p)
	return slow, true
}

func (g *gate) turn(why string) bool {
	g.turned.WithLabelValues(why).Inc()
	return false
}

// refused counts a connection whose handshake or identity did not pass.
func (g *gate) refused() { g.turned.WithLabelValues("identity").Inc() }

// passage is one connection on its way through the gate.
type passage struct {
	gate *gate
	from netip.Addr
	cut  func()

	// What follows is guarded by gate.mu.
	place *list.Element // in gate.shaking; nil: the handshake is over
	known bool          // counted under who
	who   string
	over  bool
}

// shaken says that the handshake is over.
func (p *passage) shaken() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.shakenLocked()
}

func (p *passage) shakenLocked() {
	if p.place == nil {
		return
	}
	g := p.gate
	g.shaking.Remove(p.place)
	p.place = nil
	if g.by[p.from]--; g.by[p.from] == 0 {
		delete(g.by, p.from)
	}
}

// identified says who is there ("" for a stranger), and whether that one may have
// one more connection. Strangers share a quarter of all.
func (p *passage) identified(who string) bool {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	most := maxPerNode
	if who == "" {
		most = max(1, g.rates.Open/4)
	}
	if g.held[who] >= most {
		return g.turn("open")
	}
	p.known, p.who = true, who
	g.held[who]++
	return true
}

// closed says that the connection is over.
func (p *passage) closed() {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	g.open--
	if !p.known {
		return
	}
	if g.held[p.who]--; g.held[p.who] == 0 {
		delete(g.held, p.who)
	}
}
