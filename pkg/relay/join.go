package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Half is one of two connections that Join joins: a *Stream, a *net.TCPConn, a *tls.Conn, or what
// wraps one and has a method NetConn that returns it.
type Half interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Meter counts bytes while they pass. Up is from the client, Down is to it. Several joined pairs may
// share one.
type Meter struct {
	Up, Down atomic.Int64
}

// Summary says how a joined pair ended.
type Summary struct {
	Up, Down int64 // bytes passed from and to the client
	// Err is nil if both sides were done in good order (FIN each way), else what broke first. It is
	// the cause of the context if that ended.
	Err error
}

// Join copies both ways between client, the side that is nearer to the client, and server, until
// both directions have ended, and then closes both. A side's FIN is passed on as FIN and the other
// direction goes on for as long as its two ends live; there is no timer. A side that breaks, or the
// end of ctx, resets both: RST for TCP, RST with a code for a stream (a *ResetError as the cause of
// ctx chooses it). What one side sent before it broke is still passed on. m, if not nil, counts
// while the copying goes on.
func Join(ctx context.Context, client, server Half, m *Meter) Summary {
	if m == nil {
		m = new(Meter)
	}
	j := &joined{client: client, server: server}
	stop := context.AfterFunc(ctx, func() { j.abort(context.Cause(ctx), causeCode(ctx, CodeGoingAway)) })
	defer stop()
	for _, h := range []Half{client, server} {
		if st := streamOf(h); st != nil {
			st.watch(j.streamEnded)
		}
	}
	up, down := tally{shared: &m.Up}, tally{shared: &m.Down}
	var wg sync.WaitGroup
	wg.Go(func() { j.copy("client to server", server, client, &up) })
	j.copy("server to client", client, server, &down)
	wg.Wait()
	return Summary{Up: up.n, Down: down.n, Err: j.finish()}
}

type joined struct {
	client, server Half

	mu      sync.Mutex // guards all below
	err     error
	aborted bool
}

// copy passes on one direction, its end included.
//
// If reading breaks, src is dead: both are reset. If writing breaks, dst is dead, and what it had
// sent is still on its way in the other direction, which will find that out by itself.
func (j *joined) copy(way string, dst, src Half, count *tally) {
	readErr, writeErr := pump(dst, src, count)
	if readErr == nil && writeErr == nil && !j.broken() {
		writeErr = dst.CloseWrite()
	}
	switch {
	case readErr != nil:
		j.abort(fmt.Errorf("relay: copy %s: %w", way, readErr), resetCode(readErr))
	case writeErr != nil:
		j.note(fmt.Errorf("relay: copy %s: %w", way, writeErr))
	}
}

// resetCode passes a stream's code on; a broken TCP connection has none.
func resetCode(err error) Code {
	if e, ok := errors.AsType[*ResetError](err); ok && e.Code != CodeLost {
		return e.Code
	}
	return CodePeerReset
}

// streamEnded hears of the end of a stream. Unless it was cut, reading it will tell.
func (j *joined) streamEnded(err error, cut bool) {
	if cut {
		j.abort(fmt.Errorf("relay: copy: %w", err), resetCode(err))
	}
}

// broken says whether the other direction broke: then src's end is no FIN to pass on.
func (j *joined) broken() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err != nil
}

func (j *joined) note(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
}

// abort resets both sides, once.
func (j *joined) abort(err error, code Code) {
	j.note(err)
	j.mu.Lock()
	first := !j.aborted
	j.aborted = true
	j.mu.Unlock()
	if first {
		abort(j.client, code)
		abort(j.server, code)
	}
}

// finish closes both sides in the way they ended.
func (j *joined) finish() error {
	j.mu.Lock()
	err, aborted := j.err, j.aborted
	j.mu.Unlock()
	switch {
	case aborted:
	case err != nil:
		j.abort(err, resetCode(err))
	default:
		// Both directions were flushed by their FINs; what closing says changes nothing.
		_ = j.client.Close()
		_ = j.server.Close()
	}
	return err
}

// abort ends c such that its peer sees a reset. There is nobody left to tell if that fails.
func abort(c any, code Code) {
	switch c := c.(type) {
	case *Stream:
		c.Reset(code)
	case interface{ NetConn() net.Conn }:
		abort(c.NetConn(), code)
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	case io.Closer:
		_ = c.Close()
	}
}

// Abort ends c such that its peer sees a reset: RST for TCP, RST with the code for a stream, and
// below TLS for a TLS connection.
func Abort(c io.Closer, code Code) { abort(c, code) }

func streamOf(c any) *Stream {
	switch c := c.(type) {
	case *Stream:
		return c
	case interface{ NetConn() net.Conn }:
		return streamOf(c.NetConn())
	}
	return nil
}
