package relay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Pool keeps an entry's sessions to its cores. A key names a core; it means nothing to the pool.
//
// The first Open for a key dials, further sessions follow in the background while all that exist
// are in use, up to Sessions. A session with no stream for Idle is given up. Run has to be running
// for all of that.
type Pool struct {
	// Dial connects to the core named key and checks that it is that core.
	Dial func(ctx context.Context, key string) (net.Conn, error)
	// Config is that of the sessions.
	Config Config
	// Sessions is how many to keep per key at most. Default 4.
	Sessions int
	// DialTimeout bounds a dial. Default 5 s.
	DialTimeout time.Duration
	// Idle is how long a session is kept without a stream. Default 10 min.
	Idle time.Duration
	// Log receives what no caller is told. Nil discards it.
	Log *slog.Logger

	once sync.Once
	kick chan struct{} // capacity 1: there is something in dials

	mu      sync.Mutex // guards all below
	keys    map[string]*hub
	dials   []*dial // to be started by Run
	drained chan struct{}
	closed  bool // no more Opens
}

// hub is what the pool knows of one key. It exists while there is something to know.
type hub struct {
	sessions map[*Session]struct{}
	dials    map[*dial]struct{} // under way
	changed  chan struct{}      // closed when a session has come or a dial has failed
	err      error              // of the last dial, nil if it worked
	at       time.Time          // when
}

// dial is one attempt to get a session.
type dial struct {
	key    string
	cancel context.CancelCauseFunc // nil until it has begun
	err    error                   // why its result is no longer wanted
}

const (
	// After a dial has failed, others for the key fail for so long without trying.
	failureHold = 250 * time.Millisecond

	// Open moves on to another session when one dies before it has answered, so many times in all.
	openTries = 3
)

// Open opens a stream to the core named key, over the session with the fewest. Its errors are those
// of Dial and of Session.Open.
func (p *Pool) Open(ctx context.Context, key string, h Header) (*Stream, error) {
	for try := 1; ; try++ {
		s, err := p.session(ctx, key)
		if err != nil {
			return nil, err
		}
		st, err := s.Open(ctx, h)
		_, reset := errors.AsType[*ResetError](err)
		lost := err == errEnding || reset && !s.willing()
		if !lost || ctx.Err() != nil || try == openTries {
			return st, err
		}
		p.mu.Lock()
		p.hubLocked(key).blame(s, s.Err())
		p.mu.Unlock()
	}
}

// session returns the session for the next stream, which it waits for if there is none.
func (p *Pool) session(ctx context.Context, key string) (*Session, error) {
	p.init()
	for asked := false; ; asked = true {
		p.mu.Lock()
		s, changed, err := p.pickLocked(key, asked)
		p.mu.Unlock()
		if s != nil || err != nil {
			return s, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pickLocked returns a session, or why there is none, or a channel to wait on. asked says that the
// caller has waited before, so that a dial that failed was its own.
func (p *Pool) pickLocked(key string, asked bool) (*Session, <-chan struct{}, error) {
	if p.closed {
		return nil, nil, &RefusedError{Code: CodeGoingAway, Retryable: true, Text: "entry is draining"}
	}
	h := p.hubLocked(key)
	best, willing := h.best()
	held := h.err != nil && time.Since(h.at) < failureHold
	if willing+len(h.dials) < orDefault(p.Sessions, 4) && !held && (best == nil || best.Streams() > 0) && !(asked && h.err != nil) {
		p.dialLocked(h, key)
	}
	switch {
	case best != nil:
		return best, nil, nil
	case len(h.dials) > 0:
		return nil, h.changed, nil
	case h.err != nil:
		return nil, nil, h.err
	}
	return nil, nil, &RefusedError{Code: CodeLimit, Retryable: true, Text: "all sessions are full"}
}

// best returns the session with the fewest streams that takes one more, and how many take any at
// all, now or later.
func (h *hub) best() (best *Session, willing int) {
	least := 0
	for s := range h.sessions {
		n, takes, ready := s.load()
		if isClosed(s.done) {
			h.blame(s, s.Err()) // it may have died before anybody could use it
			continue
		}
		if takes {
			willing++
		}
		if ready && (best == nil || n < least) {
			best, least = s, n
		}
	}
	return best, willing
}

// Active says whether there is a session to the core named key.
func (p *Pool) Active(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[key]
	if h == nil {
		return false
	}
	_, willing := h.best()
	return willing > 0
}

// CloseKey cuts all sessions and dials to the core named key. Its streams and its peer are told
// code. A later Open dials anew; a revoked core has to be kept away by the caller.
func (p *Pool) CloseKey(key string, code Code) {
	p.mu.Lock()
	var sessions []*Session
	if h := p.keys[key]; h != nil {
		for d := range h.dials {
			d.giveUp(&ResetError{code})
		}
		for s := range h.sessions {
			sessions = append(sessions, s)
		}
	}
	p.mu.Unlock()
	for _, s := range sessions {
		s.kill(code)
	}
}

// Drain refuses new streams, lets the open ones finish and returns when no session is left or ctx
// ends; then it returns the cause of ctx.
func (p *Pool) Drain(ctx context.Context) error {
	p.init()
	p.mu.Lock()
	p.closed = true
	for _, h := range p.keys {
		for d := range h.dials {
			d.giveUp(&ResetError{CodeGoingAway})
		}
		for s := range h.sessions {
			s.Goodbye(CodeGoingAway)
		}
	}
	p.settleLocked()
	p.mu.Unlock()
	select {
	case <-p.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
