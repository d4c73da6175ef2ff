package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Run dials and runs sessions until ctx ends; then it cuts them, as Session.Run does, and returns
// nil when all are over.
func (p *Pool) Run(ctx context.Context) error {
	p.init()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer p.close()
	idle := orDefault(p.Idle, 10*time.Minute)
	tick := time.NewTicker(max(idle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.kick:
			for _, d := range p.takeDials() {
				sessions.Go(func() { p.serve(ctx, d) })
			}
		case now := <-tick.C:
			p.sweep(now, idle)
		case <-ctx.Done():
			return nil
		}
	}
}

// serve is the life of one session.
func (p *Pool) serve(ctx context.Context, d *dial) {
	conn, err := p.connect(ctx, d)
	if err != nil {
		p.failed(d, fmt.Errorf("relay: dial: %w", err))
		return
	}
	s := Client(conn, p.Config)
	if p.arrived(d, s) != nil {
		s.kill(CodeGoingAway)
	}
	err = s.Run(ctx)
	p.gone(d.key, s, err)
	if err != nil {
		p.Log.Debug("relay session ended", "core", d.key, "err", err)
	}
}

func (p *Pool) connect(ctx context.Context, d *dial) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	d.cancel = cancel
	err := d.err
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, orDefault(p.DialTimeout, 5*time.Second))
	defer stop()
	return p.Dial(ctx, d.key)
}

// giveUp makes the dial fail with err.
func (d *dial) giveUp(err error) {
	d.err = err
	if d.cancel != nil {
		d.cancel(err)
	}
}

func (p *Pool) dialLocked(h *hub, key string) {
	d := &dial{key: key}
	h.dials[d] = struct{}{}
	p.dials = append(p.dials, d)
	notify(p.kick)
}

func (p *Pool) takeDials() []*dial {
	p.mu.Lock()
	defer p.mu.Unlock()
	dials := p.dials
	p.dials = nil
	return dials
}

// arrived makes s known. It returns why s is no longer wanted.
func (p *Pool) arrived(d *dial, s *Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[d.key]
	delete(h.dials, d)
	h.sessions[s] = struct{}{}
	h.err = nil
	h.changedNow()
	if p.closed {
		s.Goodbye(CodeGoingAway)
	}
	return d.err
}

func (p *Pool) failed(d *dial, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[d.key]
	delete(h.dials, d)
	h.err, h.at = err, time.Now()
	h.changedNow()
	p.settleLocked()
}

// gone forgets a session.
func (p *Pool) gone(key string, s *Session, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.keys[key]
	delete(h.sessions, s)
	h.blame(s, err)
	h.changedNow()
	p.settleLocked()
}

// blame counts a session that ended before the peer said a word as a dial that failed: a core that
// does not want our certificate shows it only then.
func (h *hub) blame(s *Session, err error) {
	if err != nil && s.frames.Load() == 0 {
		h.err, h.at = err, time.Now()
	}
}

// changedNow wakes those who wait for a session.
func (h *hub) changedNow() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// sweep gives up sessions that rest and forgets keys that mean nothing any more.
func (p *Pool) sweep(now time.Time, idle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, h := range p.keys {
		for s := range h.sessions {
			if s.idle(now) >= idle {
				s.Goodbye(CodeGoingAway)
			}
		}
		if len(h.sessions)+len(h.dials) == 0 && now.Sub(h.at) > failureHold {
			delete(p.keys, key)
		}
	}
}

// close fails all Opens and what Run has not begun.
func (p *Pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, d := range p.takeDials() {
		p.failed(d, net.ErrClosed)
	}
}

// settleLocked tells Drain when nothing is left.
func (p *Pool) settleLocked() {
	for _, h := range p.keys {
		if len(h.sessions)+len(h.dials) > 0 {
			return
		}
	}
	if p.closed && !isClosed(p.drained) {
		close(p.drained)
	}
}

func (p *Pool) init() {
	p.once.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kick = make(chan struct{}, 1)
		p.drained = make(chan struct{})
		p.keys = make(map[string]*hub)
		if p.Log == nil {
			p.Log = slog.New(slog.DiscardHandler)
		}
	})
}

func (p *Pool) hubLocked(key string) *hub {
	h := p.keys[key]
	if h == nil {
		h = &hub{
			sessions: make(map[*Session]struct{}),
			dials:    make(map[*dial]struct{}),
			changed:  make(chan struct{}),
		}
		p.keys[key] = h
	}
	return h
}
