package subs

import (
	"net"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// limiters bound who asks too often. An address is held against nobody whose
// secret is right: many may share one.
type limiters struct {
	misses  *ratelimit.Limiter[netip.Addr]
	fetches *ratelimit.Limiter[mesh.DeviceID]
}

func newLimiters(l Limits) *limiters {
	return &limiters{
		misses:  ratelimit.New[netip.Addr](rate.Limit(l.Misses)/60, l.Misses),
		fetches: ratelimit.New[mesh.DeviceID](rate.Limit(l.Fetches)/60, l.Fetches),
	}
}

// missed says whether from may be told once more that something does not exist.
// Clients whose address the entry does not name count as one.
func (l *limiters) missed(from string, now time.Time) bool {
	return l.misses.Allow(sourceOf(from), now)
}

func (l *limiters) fetched(d mesh.DeviceID, now time.Time) bool { return l.fetches.Allow(d, now) }

func sourceOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return ratelimit.Block(a)
}
