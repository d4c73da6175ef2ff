package gateway

import (
	"sync"
	"time"
)

const (
	// tripAfter failures in a row, none of them in between answered, the
	// servers count as gone.
	tripAfter = 3
	// tripFor is how long that holds. A probe renews it or ends it sooner.
	tripFor    = 2 * time.Second
	probeEvery = 500 * time.Millisecond
)

// breaker knows whether it is worth asking at all.
type breaker struct {
	mu       sync.Mutex // guards the rest
	failures int
	until    time.Time
}

func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

// answered closes the breaker and says whether it had tripped.
func (b *breaker) answered() (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news = b.failures >= tripAfter
	b.failures, b.until = 0, time.Time{}
	return news
}

// failed says whether this failure trips it.
func (b *breaker) failed() (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures++; b.failures >= tripAfter {
		b.until = time.Now().Add(tripFor)
	}
	return b.failures == tripAfter
}
