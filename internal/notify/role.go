package notify

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// Role is what the manager is told about.
type Role struct {
	Manager *Manager
	// Serving says whether the role has started: it listens, and has what it
	// needs. It need not be in use: a drained role has started as well.
	Serving func() bool
	// Ready returns nil when the role should be used, and otherwise why not,
	// which the manager shows as the status.
	Ready func(context.Context) error
	// Alive returns when the role can still take its own locks: a role that
	// hangs does not return, and gets no sign of life sent. What it returns
	// does not matter; a role that fails ends by itself.
	Alive func()
	Log   *slog.Logger
}

// look is how often Serving and Ready are asked: they read memory.
const look = 200 * time.Millisecond

// Run tells the manager until ctx ends. stopping is closed when the role begins
// to stop; signs of life go on while it drains. Without a manager it waits for
// ctx and does nothing else.
func (r *Role) Run(ctx context.Context, stopping <-chan struct{}) {
	if r.Manager == nil {
		<-ctx.Done()
		return
	}
	l := &loop{role: r}
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	defer l.wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping = nil // once
			l.stopping = true
			l.tell("STOPPING=1", "STATUS=stopping")
		case now := <-ticks.C:
			l.tick(ctx, now)
		}
	}
}

// loop is what Run remembers between two ticks.
type loop struct {
	role     *Role
	ready    bool // READY=1 was sent
	stopping bool
	mute     bool // the last message did not arrive, and that was logged
	status   string
	probe    chan struct{} // closed when the running probe has returned; nil: none runs
	next     time.Time     // of the next probe
}

func (l *loop) tick(ctx context.Context, now time.Time) {
	if !l.stopping {
		l.report(ctx)
	}
	l.live(now)
}

// report says READY=1 once, and every change of the status.
func (l *loop) report(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	err := l.role.Ready(ctx)
	status := "serving"
	if err != nil {
		status = strings.Join(strings.Fields(err.Error()), " ") // one line
	}
	switch {
	case !l.ready && l.role.Serving():
		l.ready, l.status = true, status
		l.tell("READY=1", "STATUS="+status)
	case status != l.status:
		l.status = status
		l.tell("STATUS=" + status)
	}
}

// live starts a probe four times in the time that the manager allows, and
// sends a sign of life for each that returned.
func (l *loop) live(now time.Time) {
	every := l.role.Manager.Watchdog() / 4
	if every == 0 {
		return
	}
	select {
	case <-l.probe:
		l.probe = nil
		l.tell("WATCHDOG=1")
	default:
	}
	if l.probe != nil || now.Before(l.next) {
		return
	}
	l.next = now.Add(every)
	done := make(chan struct{})
	l.probe = done
	go func() {
		defer close(done)
		l.role.Alive()
	}()
}

// wait waits for a probe that is under way, but not for one that hangs: then
// the role hangs, and this goroutine is the least of it.
func (l *loop) wait() {
	if l.probe == nil {
		return
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-l.probe:
	case <-t.C:
	}
}

func (l *loop) tell(assignments ...string) {
	err := l.role.Manager.send(assignments...)
	if err != nil && !l.mute {
		l.role.Log.Warn("service manager not reached", "err", err)
	}
	l.mute = err != nil
}
