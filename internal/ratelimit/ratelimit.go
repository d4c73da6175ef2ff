// Package ratelimit bounds how often each of many strangers is served, in
// bounded memory.
package ratelimit

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxTracked bounds how many keys a limiter remembers.
const maxTracked = 1 << 14

// Limiter is a token bucket per key: an address, a node. It forgets whoever has
// a full bucket when it grows too large.
type Limiter[K comparable] struct {
	every rate.Limit // tokens per second
	burst int

	mu      sync.Mutex // guards buckets
	buckets map[K]*rate.Limiter
}

// New returns a limiter of so many tokens per second, and at once, for each key.
func New[K comparable](every rate.Limit, burst int) *Limiter[K] {
	return &Limiter[K]{every: every, burst: burst, buckets: make(map[K]*rate.Limiter)}
}

// Allow takes one token of k's bucket, or says that there is none.
func (l *Limiter[K]) Allow(k K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bucketLocked(k, now).AllowN(now, 1)
}

// AllowEvery is Allow at a rate that is known only now.
func (l *Limiter[K]) AllowEvery(k K, every time.Duration, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucketLocked(k, now)
	b.SetLimitAt(now, rate.Every(every))
	return b.AllowN(now, 1)
}

// Empty says whether k has no token left, and takes none.
func (l *Limiter[K]) Empty(k K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.buckets[k]
	return ok && b.TokensAt(now) < 1
}

func (l *Limiter[K]) bucketLocked(k K, now time.Time) *rate.Limiter {
	b, ok := l.buckets[k]
	if !ok {
		if len(l.buckets) >= maxTracked {
			l.forgetLocked(now)
		}
		b = rate.NewLimiter(l.every, l.burst)
		l.buckets[k] = b
	}
	return b
}

// forgetLocked drops the keys that nothing is held against, and when there
// are none a quarter of the others: memory stays bounded whoever comes.
func (l *Limiter[K]) forgetLocked(now time.Time) {
	for k, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, k)
		}
	}
	for k := range l.buckets {
		if len(l.buckets) <= maxTracked*3/4 {
			return
		}
		delete(l.buckets, k)
	}
}

// Block is what counts as one address: an IPv4 address, or the /64 that one
// IPv6 host usually has to itself.
func Block(a netip.Addr) netip.Addr {
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
