package gateway

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

const (
	defaultMissRate  = 50 // misses a second
	defaultMissBurst = 100
	maxBudgets       = 1024
)

// budget is one token bucket per caller.
type budget struct {
	mu    sync.Mutex // guards peers
	peers map[string]*rate.Limiter
}

// wait takes one token of peer's bucket, and fails at once if none comes before
// ctx ends. So the number of waiting calls is bounded by rate and deadline.
func (b *budget) wait(ctx context.Context, peer string, r rate.Limit, burst int) error {
	if r == 0 {
		r = defaultMissRate
	}
	if burst == 0 {
		burst = defaultMissBurst
	}
	return b.of(peer, r, burst).Wait(ctx)
}

func (b *budget) of(peer string, r rate.Limit, burst int) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.peers[peer]; l != nil {
		return l
	}
	if b.peers == nil {
		b.peers = map[string]*rate.Limiter{}
	}
	if len(b.peers) >= maxBudgets {
		b.sweepLocked()
	}
	l := rate.NewLimiter(r, burst)
	b.peers[peer] = l
	return l
}

// sweepLocked forgets buckets that are full again: a new one is the same.
func (b *budget) sweepLocked() {
	for peer, l := range b.peers {
		if l.Tokens() >= float64(l.Burst()) {
			delete(b.peers, peer)
		}
	}
}

// counter counts what is open per caller.
type counter struct {
	mu   sync.Mutex // guards open
	open map[string]int
}

func (c *counter) add(peer string, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[peer] >= most {
		return false
	}
	if c.open == nil {
		c.open = map[string]int{}
	}
	c.open[peer]++
	return true
}

func (c *counter) done(peer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[peer]--; c.open[peer] <= 0 {
		delete(c.open, peer)
	}
}
