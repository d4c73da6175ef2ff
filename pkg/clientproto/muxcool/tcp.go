package muxcool

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

const (
	// record is the most that TLS carries in one piece.
	record = 16 << 10
	// linger is how long a destination that was told the end may take to end too.
	// What it says meanwhile has no reader: it is waited for so that a reset does
	// not overtake what it was sent.
	linger = 5 * time.Second
)

// serveTCP connects and copies both ways until the session is over.
func (m *conn) serveTCP(ctx context.Context, s *session) {
	defer m.drain(s)
	defer s.cancel(nil)
	dst, err := m.opener.TCP(ctx, s.to)
	if err != nil {
		m.finish(s, true)
		return
	}
	defer context.AfterFunc(ctx, func() { _ = dst.SetDeadline(time.Unix(1, 0)) })() // fails only when dst is closed
	var down sync.WaitGroup
	down.Go(func() { m.finish(s, m.down(s, dst)) })
	if m.up(ctx, s, dst) && closeWrite(dst) {
		_ = dst.SetReadDeadline(time.Now().Add(linger)) // as above
		down.Wait()
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errOver) {
		reset(dst)
	}
	_ = dst.Close() // nothing is left to be sent
	down.Wait()
}

// up writes what the client says to dst. It is true when it said all.
func (m *conn) up(ctx context.Context, s *session, dst net.Conn) bool {
	for {
		p := m.next(ctx, s)
		if p == nil {
			return ctx.Err() == nil
		}
		_, err := dst.Write(*p.buf)
		p.free()
		if err != nil {
			m.finish(s, true)
			return false
		}
	}
}

// down frames what dst says until it ends. After the client's end nobody hears
// it. No buffer is held while dst is quiet, as most are most of the time.
func (m *conn) down(s *session, dst net.Conn) (failed bool) {
	head := len(clientproto.AppendFrame(nil, clientproto.Frame{Data: true}))
	for {
		buf, n, err := fill(dst, head)
		if n > 0 && m.find(s.id) == s {
			clientproto.AppendFrame((*buf)[:0], clientproto.Frame{Session: s.id, Kind: clientproto.FrameKeep, Data: true, Size: n})
			if m.write((*buf)[:head+n]) != nil {
				err = io.ErrClosedPipe
			}
		}
		free(buf)
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
	}
}

// fillWaiting holds the buffer while it waits.
func fillWaiting(c net.Conn, head int) (*[]byte, int, error) {
	buf := buffer(record)
	n, err := c.Read((*buf)[head:])
	return buf, n, err
}

// closeWrite says whether c can tell its end and go on.
func closeWrite(c net.Conn) bool {
	h, ok := c.(interface{ CloseWrite() error })
	return ok && h.CloseWrite() == nil
}

// reset ends c so that it cannot be taken for one that finished.
func reset(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0) // then it was closed already
	}
}
