package relay

import (
	"sync/atomic"
	"time"
)

// window is the receive side's account of one stream's credit.
//
//	size ≥ open + held     open: granted and not yet received; held: received and not yet read
//
// The size starts at what HELLO announced. It doubles when the reader keeps up and the sender used
// the window up within two round trips, that is, when the window and not the sender is what limits
// the stream; it halves when at the time of a grant next to nothing is under way because the reader
// is what limits the stream, and goes back to the initial size when the stream rests. After that,
// open + held may exceed the size until the reader has caught up.
type window struct {
	size, open, held int
	initial, max     int
	last             time.Time // of the last grant
}

const minRTT = time.Millisecond // a round trip under load, where the idle one is shorter

// receive accounts for n bytes that arrived. It returns false if the peer had no credit for them.
func (w *window) receive(n int) bool {
	if n > w.open {
		return false
	}
	w.open -= n
	w.held += n
	return true
}

// read accounts for n bytes that were read and returns the credit to grant now, mostly zero:
// credit is granted by the half window.
func (w *window) read(n int, rtt time.Duration, b *budget) int {
	w.held -= n
	if due := w.size - w.open - w.held; due < w.size/2 {
		return 0
	}
	t := time.Now()
	switch {
	case w.held > w.size/8*3:
		w.resize(max(w.size/2, w.initial), b)
	case w.held <= w.size/4 && rtt > 0 && t.Sub(w.last) < 2*max(rtt, minRTT):
		w.grow(b)
	}
	w.last = t
	due := max(w.size-w.open-w.held, 0)
	w.open += due
	return due
}

func (w *window) grow(b *budget) {
	bigger := min(2*w.size, w.max)
	if b.take(bigger - w.size) {
		w.size = bigger
	}
}

// resize makes the window smaller and returns the rest to the budget.
func (w *window) resize(size int, b *budget) {
	b.give(w.size - size)
	w.size = size
}

// rest resizes a grown window that saw no grant since t.
func (w *window) rest(t time.Time, b *budget) {
	if w.last.Before(t) {
		w.resize(w.initial, b)
	}
}

// budget is an amount of memory that streams share.
type budget struct {
	left atomic.Int64
}

func (b *budget) take(n int) bool {
	if b.left.Add(-int64(n)) < 0 {
		b.left.Add(int64(n))
		return false
	}
	return true
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }
