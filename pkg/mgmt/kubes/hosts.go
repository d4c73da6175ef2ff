package kubes

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// nameTime bounds one lookup, and nameKept is how long an address counts after a
	// name has led there: answers may change from one to the next.
	nameTime = 3 * time.Second
	nameKept = 15 * time.Minute
)

// hosts remembers where names have led. What was found counts until something else
// is.
type hosts struct {
	resolver Resolver // nil: this machine's

	mu   sync.Mutex // guards what is below
	seen map[string]map[netip.Addr]time.Time
	err  map[string]error // of the last lookup
}

var errNotLookedUp = errors.New("it is not looked up yet")

// look looks the hosts of addresses up, and says whether something was found that
// was not known, or is no longer so.
func (h *hosts) look(ctx context.Context, addresses []string, now time.Time) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, nameTime)
	defer cancel()
	var wg sync.WaitGroup
	before, all := h.all(), map[string]bool{}
	for _, a := range addresses {
		if host, _, err := splitAddress(a); err == nil {
			all[host] = true
		}
	}
	for host := range all {
		wg.Go(func() {
			found, err := (&Lookout{Resolver: h.resolver}).lookUp(ctx, host)
			h.note(host, found, err, now)
		})
	}
	wg.Wait()
	return !maps.EqualFunc(before, h.all(), slices.Equal)
}

func (h *hosts) note(host string, found []netip.Addr, err error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen, h.err = map[string]map[netip.Addr]time.Time{}, map[string]error{}
	}
	h.err[host] = err
	if err != nil {
		return
	}
	at := h.seen[host]
	if at == nil {
		at = map[netip.Addr]time.Time{}
		h.seen[host] = at
	}
	maps.DeleteFunc(at, func(_ netip.Addr, last time.Time) bool { return now.Sub(last) > nameKept })
	for _, ip := range found {
		at[ip] = now
	}
}

// of are the addresses of a host.
func (h *hosts) of(host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.seen[host]; len(at) > 0 {
		return slices.SortedFunc(maps.Keys(at), netip.Addr.Compare), nil
	}
	if err := h.err[host]; err != nil {
		return nil, err
	}
	return nil, errNotLookedUp
}

func (h *hosts) all() map[string][]netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string][]netip.Addr{}
	for host, at := range h.seen {
		out[host] = slices.SortedFunc(maps.Keys(at), netip.Addr.Compare)
	}
	return out
}
