// Package muxcool serves mux.cool connections: many streams and flows of datagrams of one client in
// one connection, XUDP among them.
//
// The protocol has no credit per stream, so that a destination that takes nothing stops what the
// client sends to all others of the same connection once a bounded queue is full. It has no
// half-close either: the end of a session ends both directions. Datagrams are dropped where streams
// wait.
package muxcool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Opener reaches destinations. It decides what is allowed and how long a try may
// take.
type Opener interface {
	TCP(ctx context.Context, to clientproto.Destination) (net.Conn, error)
	UDP(ctx context.Context) (Flow, error)
}

// Flow is a socket for the datagrams of one session, to and from anywhere. Send
// and Receive are each called by one goroutine.
type Flow interface {
	// Send passes on one datagram. What cannot be sent is dropped; an error says
	// that the flow is over.
	Send(ctx context.Context, p []byte, to clientproto.Destination) error
	// Receive waits for one datagram and hands it to take. It returns the error of
	// take, or why the flow is over.
	Receive(take func(p []byte, from netip.AddrPort) error) error
	// Close ends Receive. It is called once, when nothing is sent any more.
	Close() error
}

// slots are the pieces of payload that a connection holds for destinations that
// are not ready to take them; each is of 64 KiB at most, and 8 KiB with the usual
// clients.
const slots = 32

// Serve serves one connection until it ends, and whatever was opened has ended
// with it. At most sessions are open at once. The rest of what c reads is in r.
// Serve closes c, also when ctx ends; nil means that the client ended it.
func Serve(ctx context.Context, r *bufio.Reader, c io.WriteCloser, o Opener, sessions int) error {
	return newConn(c, o, sessions).serve(ctx, r)
}

type conn struct {
	opener Opener
	limit  int
	slots  chan struct{} // filled by read, emptied by the sessions
	wg     sync.WaitGroup

	out    sync.Mutex // held while a frame is written
	client io.WriteCloser
	once   sync.Once

	mu       sync.Mutex // guards sessions
	sessions map[uint16]*session
}

func newConn(c io.WriteCloser, o Opener, sessions int) *conn {
	return &conn{opener: o, limit: sessions, client: c, slots: make(chan struct{}, slots), sessions: map[uint16]*session{}}
}

func (m *conn) serve(ctx context.Context, r *bufio.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer m.close()
	defer context.AfterFunc(ctx, m.close)()
	err := m.read(ctx, r)
	m.abort()
	defer time.AfterFunc(linger, cancel).Stop() // for what the client ended before
	m.wg.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("muxcool: read: %w", err)
}

// close makes reading and writing fail, also while somebody is in it.
func (m *conn) close() { m.once.Do(func() { _ = m.client.Close() }) } // the connection is over either way

// read takes the client's frames. It alone adds sessions and fills them.
func (m *conn) read(ctx context.Context, r *bufio.Reader) error {
	for {
		f, err := clientproto.ReadFrame(r)
		if err != nil {
			return err
		}
		to, err := m.session(ctx, f)
		if err != nil {
			return err
		}
		if !f.Data {
			continue
		}
		if to == nil {
			if _, err = r.Discard(f.Size); err != nil {
				return err
			}
			continue
		}
		if err = m.payload(ctx, r, f, to); err != nil {
			return err
		}
	}
}

// session does what the head of a frame says and returns who gets its payload.
func (m *conn) session(ctx context.Context, f clientproto.Frame) (*session, error) {
	switch f.Kind {
	case clientproto.FrameNew:
		return m.open(ctx, f)
	case clientproto.FrameKeep:
		if s := m.find(f.Session); s != nil {
			return s, nil
		}
		m.end(f.Session, false) // it ended here while this was on its way
	case clientproto.FrameEnd:
		if s := m.find(f.Session); s != nil && m.remove(s) {
			s.ended(f.Failed)
		}
	case clientproto.FrameKeepAlive:
	}
	return nil, nil
}

// open starts a session. One too many is ended at once.
func (m *conn) open(ctx context.Context, f clientproto.Frame) (*session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{id: f.Session, udp: f.UDP, to: f.To, in: make(chan piece, slots), done: ctx.Done(), cancel: cancel}
	serve := m.serveTCP
	if s.udp {
		serve = m.serveUDP
	}
	switch added, taken := m.add(s); {
	case added:
		m.wg.Go(func() { serve(ctx, s) })
		return s, nil
	case taken:
		cancel(nil)
		return nil, fmt.Errorf("session %d is open: %w", s.id, mesh.ErrInvalid)
	}
	cancel(nil)
	m.end(s.id, true)
	return nil, nil
}

func (m *conn) add(s *session) (added, taken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.id] != nil {
		return false, true
	}
	if len(m.sessions) >= m.limit {
		return false, false
	}
	m.sessions[s.id] = s
	return true, false
}

func (m *conn) find(id uint16) *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[id]
}

// remove says whether s was still there: who removes a session ends it.
func (m *conn) remove(s *session) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.id] != s {
		return false
	}
	delete(m.sessions, s.id)
	return true
}

// finish ends a session from this side and tells the client, unless that said
// so itself.
func (m *conn) finish(s *session, failed bool) {
	removed := m.remove(s)
	if failed {
		s.cancel(nil)
	} else {
		s.cancel(errOver)
	}
	if removed {
		m.end(s.id, failed)
	}
}

// abort cuts what is open.
func (m *conn) abort() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.sessions {
		s.cancel(nil)
		delete(m.sessions, id)
	}
}

func (m *conn) end(id uint16, failed bool) {
	f := clientproto.Frame{Session: id, Kind: clientproto.FrameEnd, Failed: failed}
	_ = m.write(clientproto.AppendFrame(nil, f)) // then all sessions end
}

// write sends one frame. When that fails, the connection is over.
func (m *conn) write(frame []byte) error {
	m.out.Lock()
	defer m.out.Unlock()
	_, err := m.client.Write(frame)
	if err != nil {
		m.close()
	}
	return err
}
