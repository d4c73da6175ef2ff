package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// The model of a stream is two sides that know what each has sent and how it ended.
type modelSide struct {
	*Stream
	peer                     *modelSide
	salt                     int
	sent, got                int
	finned, closed, resetted bool
}

func (s *modelSide) byteAt(i int) byte { return byte(i*7 + i>>8 + s.salt) }

type model struct {
	*rand.Rand
	t     *testing.T
	pair  *pair
	cfg   Config
	sides []*modelSide
}

// TestRandomOperationsFollowTheModel does random operations on random streams of a pair of sessions
// and compares every result with what two honest ends of a connection would see.
func TestRandomOperationsFollowTheModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Window: 8 << 10, MaxWindow: 64 << 10, Budget: 8 << 20}
				m := &model{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, cfg: cfg, pair: pipePair(t, cfg)}
				for range 400 {
					m.step()
					synctest.Wait()
					if t.Failed() {
						return
					}
				}
				m.finish()
			})
		})
	}
}

func (m *model) step() {
	if len(m.sides) == 0 || m.IntN(20) == 0 && len(m.sides) < 40 {
		m.open()
		return
	}
	s := m.sides[m.IntN(len(m.sides))]
	switch op := m.IntN(100); {
	case op < 45:
		m.write(s, 1+m.IntN(30<<10))
	case op < 90:
		m.read(s, 1+m.IntN(30<<10))
	case op < 95:
		m.closeWrite(s)
	case op < 98:
		s.Close()
		s.finned = s.finned || s.alive()
		s.closed = true
	default:
		s.Reset(CodePeerReset)
		s.resetted = s.resetted || s.alive()
		s.closed = true
	}
}

// alive says whether the peers still know the stream.
func (s *modelSide) alive() bool {
	return !(s.finned && s.peer.finned) && !s.resetted && !s.peer.resetted
}

func (m *model) open() {
	entry, core := m.pair.open(m.t)
	a, b := &modelSide{Stream: entry, salt: m.IntN(256)}, &modelSide{Stream: core, salt: m.IntN(256)}
	a.peer, b.peer = b, a
	m.sides = append(m.sides, a, b)
}

func (m *model) write(s *modelSide, size int) {
	p := make([]byte, size)
	for i := range p {
		p[i] = s.byteAt(s.sent + i)
	}
	s.SetWriteDeadline(time.Now().Add(time.Millisecond))
	n, err := s.Write(p)
	s.sent += n
	unread := s.sent - s.peer.got
	switch {
	case s.closed || s.finned || s.peer.resetted:
		if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			m.t.Errorf("write on a stream that is over: %d, %v", n, err)
		}
	case n < size && !errors.Is(err, os.ErrDeadlineExceeded):
		m.t.Errorf("wrote %d of %d: %v", n, size, err)
	case n < size && unread < m.cfg.Window/2 && !s.peer.closed:
		m.t.Errorf("stuck with %d bytes unread", unread)
	case unread > m.cfg.MaxWindow && !s.peer.closed:
		m.t.Errorf("%d bytes unread", unread)
	}
}

func (m *model) read(s *modelSide, size int) {
	p := make([]byte, size)
	s.SetReadDeadline(time.Now().Add(time.Millisecond))
	n, err := s.Read(p)
	for i := range n {
		if p[i] != s.peer.byteAt(s.got+i) {
			m.t.Errorf("byte %d is wrong", s.got+i)
			return
		}
	}
	s.got += n
	var want error
	switch {
	case s.closed:
		want = net.ErrClosed
	case n > 0 || s.got < s.peer.sent:
	case s.peer.finned:
		want = io.EOF
	case s.peer.resetted:
		if resetCodeOf(m.t, err) != CodePeerReset {
			m.t.Errorf("got %v", err)
		}
		return
	default:
		want = os.ErrDeadlineExceeded
	}
	if !errors.Is(err, want) || (n == 0) != (want != nil) {
		m.t.Errorf("read %d, %v; want %v", n, err, want)
	}
}

func (m *model) closeWrite(s *modelSide) {
	err := s.CloseWrite()
	if over := s.closed || s.peer.resetted; err != nil && !over {
		m.t.Error(err)
	}
	s.finned = s.finned || s.alive()
}

func (m *model) finish() {
	for _, s := range m.sides {
		s.Close()
	}
	synctest.Wait()
	for _, s := range []*Session{m.pair.entry, m.pair.core} {
		if s.Streams() != 0 || len(s.streams) != 0 || s.held.Load() != 0 || s.budget.left.Load() != int64(m.cfg.Budget) {
			m.t.Errorf("left: %d streams, %d known, %d bytes held, %d of the budget",
				s.Streams(), len(s.streams), s.held.Load(), s.budget.left.Load())
		}
	}
}

// FuzzSession feeds bytes to a session as its peer would.
func FuzzSession(f *testing.F) {
	conversation := func(frames ...rawFrame) (b []byte) {
		for _, f := range frames {
			b = append(b, f.bytes()...)
		}
		return b
	}
	f.Add(false, conversation(rawHello, rawOpen, rawFrame{typePing, 0, "12345678"}, rawFrame{typeReset, 1, "\x01"}))
	f.Add(false, conversation(rawHello, rawOpen, rawFrame{typeGoodbye, 0, "\x01"}, rawFrame{200, 3, "later"}))
	f.Add(true, conversation(rawHello, rawFrame{typeAccept, 1, ""}, rawFrame{typeData, 1, "data"}, rawFrame{typeCredit, 1, "\x00\x00\x01\x00"}, rawFrame{typeFin, 1, ""}))
	f.Add(true, conversation(rawHello, rawFrame{typeRefuse, 1, "\x04\x01full"}))
	f.Fuzz(func(t *testing.T, client bool, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			s := newSession(ours, Config{Window: 1000, MaxStreams: 4}, client)
			go func() {
				go io.Copy(io.Discard, theirs)
				synctest.Wait() // let streams be opened first
				theirs.Write(b)
				theirs.Close()
			}()
			use := func(st *Stream, err error) {
				if err == nil {
					io.Copy(st, st)
					st.Close()
				}
			}
			if client {
				go func() { use(s.Open(context.Background(), testHeader)) }()
				go func() { use(s.Open(context.Background(), testHeader)) }()
			} else {
				go func() {
					for {
						in, err := s.Accept(context.Background())
						if err != nil {
							return
						}
						go func() { use(in.Accept()) }()
					}
				}()
			}
			if err := s.Run(context.Background()); err == nil && s.Streams() > 0 {
				t.Error("ended in good order with streams open")
			}
			synctest.Wait()
			if !client {
				for s.nextIncoming() != nil {
				}
			}
			if n, held := s.Streams(), s.held.Load(); held != 0 || client && n != 0 {
				t.Errorf("%d streams, %d bytes left", n, held)
			}
		})
	})
}
