package relay

import (
	"sync"
	"time"
)

// deadline is one direction's deadline. The zero value never passes.
type deadline struct {
	mu    sync.Mutex // guards all below
	c     chan struct{}
	timer *time.Timer
}

// set moves the deadline; the zero time removes it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.c // the timer's function has run or is about to: wait until it has closed the channel
	}
	d.timer = nil
	if d.c == nil || isClosed(d.c) {
		d.c = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	c := d.c
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(c) })
		return
	}
	close(c)
}

// passed is closed when the deadline has passed; it is nil if none was ever set. Who waits on it has
// to be woken when a deadline is set.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.c
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
