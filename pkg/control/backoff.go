package control

import (
	"math/rand/v2"
	"time"
)

// Backoff spreads repeated attempts: each delay is random between zero and a
// bound that doubles from Min to Max. The randomness comes after the bound
// ("full jitter"), so that nodes stay spread however long an outage lasts.
type Backoff struct {
	Min, Max time.Duration // zero: 500 ms, 60 s

	tries int
}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	lo, hi := b.bounds()
	limit := hi
	if lo <= hi>>b.tries {
		limit = lo << b.tries
		b.tries++
	}
	return rand.N(limit) + time.Millisecond // never a spin
}

// Reset starts over after a success.
func (b *Backoff) Reset() { b.tries = 0 }

func (b *Backoff) bounds() (lo, hi time.Duration) {
	lo, hi = b.Min, b.Max
	if lo <= 0 {
		lo = 500 * time.Millisecond
	}
	if hi <= 0 {
		hi = time.Minute
	}
	return lo, max(lo, hi)
}
