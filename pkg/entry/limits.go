package entry

import (
	"container/list"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Limits bound what an entry holds at once. A negative value means no bound.
type Limits struct {
	Total     int // connections; 0: 16,384
	PerSource int // connections of one IPv4 address or IPv6 /64; 0: 1,024
	// Hellos is how many connections may be between accept and a complete
	// ClientHello; beyond it the one that has waited longest ends, so that
	// silent ones never keep others out. 0: 4,096.
	Hellos int
}

func (l Limits) withDefaults() Limits {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&l.Total, 16_384)
	def(&l.PerSource, 1_024)
	def(&l.Hellos, 4_096)
	return l
}

// counter counts what is open per key.
type counter[K comparable] struct {
	mu   sync.Mutex // guards open
	open map[K]int
}

// take counts one more, unless most are open; most <= 0 is no limit.
func (c *counter[K]) take(key K, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most > 0 && c.open[key] >= most {
		return false
	}
	if c.open == nil {
		c.open = map[K]int{}
	}
	c.open[key]++
	return true
}

func (c *counter[K]) give(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key]--; c.open[key] <= 0 {
		delete(c.open, key)
	}
}

// sourceOf is what counts as one source: an IPv4 address, or the /64 that one
// IPv6 customer has.
func sourceOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || !a.IsValid() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// cutLabel splits a name at its first dot.
func cutLabel(name mesh.ServerName) (label, suffix string, ok bool) {
	return strings.Cut(string(name), ".")
}

// hellos are the connections whose hello is not complete, oldest first.
type hellos struct {
	most int

	mu    sync.Mutex // guards order and what it holds
	order list.List  // of *waiting
}

type waiting struct {
	conn    interface{ SetReadDeadline(time.Time) error }
	evicted bool
	place   *list.Element
}

// add admits w, and if it is one too many wakes the one that came first.
func (h *hellos) add(w *waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.place = h.order.PushBack(w)
	if h.most > 0 && h.order.Len() > h.most {
		oldest := h.order.Remove(h.order.Front()).(*waiting)
		oldest.evicted, oldest.place = true, nil
		// It fails only for a connection that has ended, which is as good.
		_ = oldest.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// remove says whether w was evicted meanwhile.
func (h *hellos) remove(w *waiting) (evicted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.place != nil {
		h.order.Remove(w.place)
		w.place = nil
	}
	return w.evicted
}

func (h *hellos) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.order.Len()
}

// FilesFor is how many open files that many connections (0: the default) may
// need: each its own and, at worst, one towards a core, and some for the rest.
func FilesFor(maxConns int) uint64 {
	n := Limits{Total: maxConns}.withDefaults().Total
	return 2*uint64(max(n, 0)) + 512
}
