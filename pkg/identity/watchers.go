package identity

import "sync"

// watchers are functions to call after a change.
type watchers struct {
	mu    sync.Mutex // guards what follows
	next  int
	funcs map[int]func()
}

func (w *watchers) add(f func()) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.funcs == nil {
		w.funcs = map[int]func(){}
	}
	id := w.next
	w.next++
	w.funcs[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.funcs, id)
	}
}

// notify calls every function, outside the lock: one may cancel itself.
func (w *watchers) notify() {
	w.mu.Lock()
	funcs := make([]func(), 0, len(w.funcs))
	for _, f := range w.funcs {
		funcs = append(funcs, f)
	}
	w.mu.Unlock()
	for _, f := range funcs {
		f()
	}
}

// Subscribe calls changed after every Apply, from the goroutine that applied.
// It must not block. To close connections of peers that became revoked, Track
// does all of it.
func (r *Revocations) Subscribe(changed func()) (cancel func()) { return r.subs.add(changed) }

// Track watches an open connection: once p is revoked, cut is called, once, from
// the goroutine that applied the revocation or, when p was revoked between the
// handshake and Track, from this one. cut must not block. The owner calls
// release when the connection has ended by itself. A nil Revocations tracks
// nothing.
func (r *Revocations) Track(p Peer, cut func()) (release func()) {
	if r == nil {
		return func() {}
	}
	once := sync.OnceFunc(cut)
	check := func() {
		if r.Check(p) != nil {
			once()
		}
	}
	cancel := r.subs.add(check)
	check()
	return cancel
}
