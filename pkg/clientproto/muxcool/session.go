package muxcool

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

// session is one stream or flow. It ends when the client has said all (in is
// closed, by the reader), when the destination has (errOver), or at once, with
// any other cause.
type session struct {
	id     uint16
	udp    bool
	to     clientproto.Destination
	in     chan piece
	done   <-chan struct{}
	cancel context.CancelCauseFunc
}

// errOver is why the context of a session ends whose destination said all.
var errOver = errors.New("muxcool: the destination has ended")

// piece is the payload of one frame.
type piece struct {
	buf *[]byte
	to  clientproto.Destination // of a datagram
}

// ended tells s that the client said all, or that it gave up.
func (s *session) ended(failed bool) {
	if failed {
		s.cancel(nil)
		return
	}
	close(s.in)
}

// payload hands the payload of f to s: a stream waits until there is room, a
// datagram does not.
func (m *conn) payload(ctx context.Context, r *bufio.Reader, f clientproto.Frame, s *session) error {
	p := piece{buf: buffer(f.Size), to: s.to}
	if f.UDP {
		p.to = f.To
	}
	if _, err := io.ReadFull(r, *p.buf); err != nil {
		return err
	}
	if !m.slot(ctx, s) {
		p.free()
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.id] != s { // over meanwhile
		<-m.slots
		p.free()
		return nil
	}
	s.in <- p // has room for every slot
	return nil
}

// slot takes one for a payload of s, unless there is no use in that.
func (m *conn) slot(ctx context.Context, s *session) bool {
	select {
	case m.slots <- struct{}{}:
		return true
	default:
	}
	if s.udp {
		return false
	}
	select {
	case m.slots <- struct{}{}:
		return true
	case <-s.done:
	case <-ctx.Done():
	}
	return false
}

// next waits for what the client says next. Nil: it has said all, or the session
// is over by the end of ctx.
func (m *conn) next(ctx context.Context, s *session) *piece {
	select {
	case p, ok := <-s.in:
		if !ok {
			return nil
		}
		<-m.slots
		return &p
	case <-ctx.Done():
		return nil
	}
}

// drain frees what is left of a session that was removed.
func (m *conn) drain(s *session) {
	for {
		select {
		case p, ok := <-s.in:
			if !ok {
				return
			}
			<-m.slots
			p.free()
		default:
			return
		}
	}
}

const (
	small = 2 << 10
	large = 16 << 10
)

var (
	smallPool = sync.Pool{New: func() any { return new(make([]byte, small)) }}
	largePool = sync.Pool{New: func() any { return new(make([]byte, large)) }}
)

// buffer returns one of n bytes.
func buffer(n int) *[]byte {
	var b *[]byte
	switch {
	case n <= small:
		b = smallPool.Get().(*[]byte)
	case n <= large:
		b = largePool.Get().(*[]byte)
	default:
		return new(make([]byte, n))
	}
	*b = (*b)[:n]
	return b
}

// free puts b back.
func free(b *[]byte) {
	switch cap(*b) {
	case small:
		smallPool.Put(b)
	case large:
		largePool.Put(b)
	}
}

func (p piece) free() { free(p.buf) }
