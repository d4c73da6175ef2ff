package telegram

import (
	"slices"
	"sync"
)

// ledger knows which updates are being handled, so that each is handled once while
// the process lives, and acknowledged only when it and all before it are done.
type ledger struct {
	mu    sync.Mutex
	known map[int]bool // update id → handled
	moved chan struct{}
}

func newLedger() *ledger { return &ledger{known: map[int]bool{}, moved: make(chan struct{}, 1)} }

// begin takes an update up; false when it was before.
func (l *ledger) begin(id int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[id]; ok {
		return false
	}
	l.known[id] = false
	return true
}

func (l *ledger) done(id int) {
	l.mu.Lock()
	l.known[id] = true
	l.mu.Unlock()
	select {
	case l.moved <- struct{}{}:
	default: // somebody is to look already
	}
}

// open is how many updates are not handled yet.
func (l *ledger) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, done := range l.known {
		if !done {
			n++
		}
	}
	return n
}

// offset is the first update that is not to be acknowledged by asking from there
// on; 0 acknowledges none, and asks for all: the numbers may begin anew, lower,
// when nobody wrote for a week.
func (l *ledger) offset() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) == 0 {
		return 0
	}
	last := 0
	var open []int
	for id, done := range l.known {
		last = max(last, id)
		if !done {
			open = append(open, id)
		}
	}
	if len(open) > 0 {
		return slices.Min(open)
	}
	return last + 1
}

// acknowledged forgets what comes before offset: it does not come again.
func (l *ledger) acknowledged(offset int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.known {
		if id < offset {
			delete(l.known, id)
		}
	}
}
