// Package child keeps a child process running, and this process safe from it:
// what is in the child may be killed, panic, hang or ask for all memory, and
// nothing but the child ends.
//
//	start ─▶ confine ─▶ attend ─ ends, or its attendant is not content ─▶ back off ─▶ start …
//	ctx ends: SIGTERM ─ grace ─▶ SIGKILL ─▶ Run returns
//
// The child gets the environment and arguments that it is given and nothing of
// this process's, and one descriptor beside the standard ones: its end of a
// socket (SocketFD) that nobody else can reach. It dies with this process,
// however that ends.
package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// SocketFD is the descriptor of the child's end of the socket.
const SocketFD = 3

const (
	defaultGrace = 5 * time.Second
	// A child that ends is started again after about firstDelay, and later each
	// time, up to maxDelay. One that ran for steady starts over.
	firstDelay = 500 * time.Millisecond
	maxDelay   = time.Minute
	steady     = time.Minute
)

// Process is a child to keep running.
type Process struct {
	Name string   // in logs
	Path string   // the program
	Args []string // all of them, the program's name first; everybody on the machine can read them
	Env  []string // all of it
	// Memory is how many bytes of private memory the kernel lets it have
	// (RLIMIT_DATA); 0: no limit.
	Memory int64
	// Attend speaks with the child over the socket until its context ends, which
	// is after the child has. When it returns before, the child is killed, and
	// the error says why.
	Attend func(context.Context, net.Conn) error
	// Grace is how long it may take to end when it is asked to; 0: 5 s.
	Grace time.Duration
	// Redact takes out of what the child writes what no log may have; nil: nothing.
	Redact func(string) string
	Log    *slog.Logger

	mu    sync.Mutex // guards state
	state State
}

// State is how a child goes.
type State struct {
	PID       int       // 0: it does not run now
	Started   time.Time // when it was last started
	Restarts  int       // how often it was started again
	LastEnd   string    // why it ended when it last did, in one line
	LastEnded time.Time
}

// State returns how the child goes now.
func (p *Process) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Run keeps the child running until ctx ends, and returns when it has ended.
func (p *Process) Run(ctx context.Context) error {
	var back backoff
	for ctx.Err() == nil {
		begun := time.Now()
		err := p.once(ctx)
		if ctx.Err() != nil {
			return err
		}
		delay := back.next(time.Since(begun))
		p.note(func(s *State) { s.LastEnd, s.LastEnded = err.Error(), time.Now() })
		p.Log.Warn("child ended", "unit", p.Name, "err", err, "delay", delay)
		pause(ctx, delay)
		p.note(func(s *State) { s.Restarts++ })
	}
	return nil
}

func (p *Process) note(f func(*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.state)
}

// once runs the child one time. It returns why it ended, and nil when it was
// asked to and did.
func (p *Process) once(ctx context.Context) error {
	out := newLines(p)
	r, conn, err := p.start(out)
	if err != nil {
		return err
	}
	defer conn.Close()
	p.note(func(s *State) { s.PID, s.Started = r.pid(), time.Now() })
	p.Log.Debug("child started", "unit", p.Name, "pid", r.pid())
	defer p.note(func(s *State) { s.PID = 0 })

	own, release := context.WithCancel(context.WithoutCancel(ctx))
	attended := make(chan error, 1)
	go func() { attended <- p.Attend(own, conn) }()
	fault, gone := r.watch(ctx, attended, p.grace())
	release()
	if !gone {
		<-attended
	}
	out.flush()
	if ctx.Err() != nil && fault == nil {
		return nil
	}
	return describe(cause(fault, r.err), out.panicked())
}

func (p *Process) grace() time.Duration {
	if p.Grace > 0 {
		return p.Grace
	}
	return defaultGrace
}

// watch waits for the end of the child, and brings it about when ctx ends or its
// attendant leaves, which gone says. It returns what was wrong with the child.
func (r *running) watch(ctx context.Context, attended <-chan error, grace time.Duration) (fault error, gone bool) {
	select {
	case <-r.done:
		return nil, false
	case fault = <-attended:
		if fault == nil {
			fault = errors.New("nobody attended to it")
		}
		r.kill()
		return fault, true
	case <-ctx.Done():
		return r.stop(grace), false
	}
}

func cause(fault, end error) error {
	switch {
	case fault != nil:
		return fault
	case end != nil:
		return end
	}
	return errors.New("it ended by itself")
}

func describe(err error, panicked string) error {
	if panicked == "" {
		return fmt.Errorf("child: %w", err)
	}
	return fmt.Errorf("child: %w: %s", err, panicked)
}

// backoff is how long to wait before the child is started again: a step that
// doubles, of which the second half is random.
type backoff struct{ step time.Duration }

func (b *backoff) next(lived time.Duration) time.Duration {
	b.step = min(2*b.step, maxDelay)
	if b.step == 0 || lived >= steady {
		b.step = firstDelay
	}
	return b.step/2 + rand.N(b.step/2)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
