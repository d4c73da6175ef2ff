package mgmt

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxTracked bounds how many addresses a limiter remembers.
const maxTracked = 1 << 14

// limiter is a token bucket per address. It forgets whoever has a full bucket
// when it grows too large.
type limiter struct {
	every rate.Limit // tokens per second
	burst int

	mu      sync.Mutex // guards buckets
	buckets map[netip.Addr]*rate.Limiter
}

func newLimiter(every rate.Limit, burst int) *limiter {
	return &limiter{every: every, burst: burst, buckets: make(map[netip.Addr]*rate.Limiter)}
}

// allow takes one token of a's bucket, or says that there is none.
func (l *limiter) allow(a netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bucketLocked(a, now).AllowN(now, 1)
}

// empty says whether a has no token left, and takes none.
func (l *limiter) empty(a netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.buckets[block(a)]
	return ok && b.TokensAt(now) < 1
}

func (l *limiter) bucketLocked(a netip.Addr, now time.Time) *rate.Limiter {
	a = block(a)
	b, ok := l.buckets[a]
	if !ok {
		if len(l.buckets) >= maxTracked {
			l.forgetLocked(now)
		}
		b = rate.NewLimiter(l.every, l.burst)
		l.buckets[a] = b
	}
	return b
}

// forgetLocked drops the addresses that nothing is held against, and when there
// are none a quarter of the others: memory stays bounded whoever comes.
func (l *limiter) forgetLocked(now time.Time) {
	for a, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, a)
		}
	}
	for a := range l.buckets {
		if len(l.buckets) <= maxTracked*3/4 {
			return
		}
		delete(l.buckets, a)
	}
}

// block is what counts as one address: an IPv4 address, or the /64 that one
// IPv6 host usually has to itself.
func block(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || !a.IsValid() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a // 64 fits every IPv6 address
	}
	return p.Addr()
}
