package core

import (
	"net"
	"net/netip"
	"sync"
)

// gate bounds the TLS handshakes under way, in all and from one source, since
// they are what a stranger can make a core do.
type gate struct {
	max, perSource int

	mu      sync.Mutex // guards all below
	n       int
	sources map[netip.Prefix]int
}

func newGate(l Limits) *gate {
	return &gate{max: l.Handshakes, perSource: l.PerSource, sources: map[netip.Prefix]int{}}
}

// enter says whether one more from that source may begin.
func (g *gate) enter(from netip.Prefix) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n >= g.max || g.sources[from] >= g.perSource {
		return false
	}
	g.n++
	g.sources[from]++
	return true
}

func (g *gate) leave(from netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.sources[from]--; g.sources[from] == 0 {
		delete(g.sources, from)
	}
}

// sourceOf is the address a peer comes from; an IPv6 network counts as one.
func sourceOf(c net.Conn) netip.Prefix {
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{}
	}
	a := ap.Addr().Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits).Masked()
}
