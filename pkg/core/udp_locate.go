package core

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxNames bounds the names a flow remembers.
const maxNames = 64

// located is what a name was resolved to, the address that works first.
type located struct {
	addrs []netip.AddrPort
	until time.Time
}

// locate returns where to send to; there is at least one address.
func (f *flow) locate(ctx context.Context, to destination) (*located, error) {
	if err := f.dialer.policy.Load().checkName(to); err != nil {
		return nil, err
	}
	if to.host == "" {
		return &located{addrs: []netip.AddrPort{netip.AddrPortFrom(to.ip, to.port)}}, nil
	}
	now := time.Now()
	at, ok := f.names[to]
	if !ok || now.After(at.until) {
		at = f.resolve(ctx, to)
		at.until = now.Add(stale)
		if len(f.names) >= maxNames {
			clear(f.names)
		}
		f.names[to] = at
	}
	if len(at.addrs) == 0 {
		return nil, fmt.Errorf("core: udp: no address: %w", mesh.ErrNotFound)
	}
	return at, nil
}

// resolve returns no addresses when there are none: also that is remembered.
func (f *flow) resolve(ctx context.Context, to destination) *located {
	ctx, cancel := context.WithTimeout(ctx, f.limits.Dial)
	defer cancel()
	ips, err := f.dialer.resolve(ctx, to.host)
	if err != nil {
		return &located{}
	}
	at := &located{}
	for _, ip := range ips[:min(len(ips), maxAttempts)] {
		at.addrs = append(at.addrs, netip.AddrPortFrom(ip.Unmap(), to.port))
	}
	return at
}
