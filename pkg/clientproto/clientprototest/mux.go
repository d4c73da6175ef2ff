package clientprototest

import (
	"bufio"
	"io"
	"sync"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

// Mux is the client's side of a mux.cool connection.
type Mux struct {
	out sync.Mutex // held while a frame is written
	c   io.ReadWriteCloser

	mu       sync.Mutex // guards what follows
	sessions map[uint16]*Session
	last     uint16
	err      error
}

// Session is one stream or flow.
type Session struct {
	mux *Mux
	id  uint16
	new clientproto.Frame // to be sent with the first payload
	in  chan Piece
	// Failed says, once Pieces is closed, that it did not end in good order.
	Failed bool
}

// Piece is the payload of one frame.
type Piece struct {
	Data []byte
	From clientproto.Destination // of a datagram
}

// NewMux starts to read frames from c, until that ends.
func NewMux(c io.ReadWriteCloser) *Mux {
	m := &Mux{c: c, sessions: map[uint16]*Session{}}
	go m.read()
	return m
}

// Close ends the connection.
func (m *Mux) Close() error { return m.c.Close() }

// Open begins a stream to a destination, or a flow of datagrams.
func (m *Mux) Open(to clientproto.Destination, udp bool) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	s := &Session{mux: m, id: m.last, in: make(chan Piece, 64)}
	s.new = clientproto.Frame{Session: s.id, Kind: clientproto.FrameNew, UDP: udp, To: to}
	if m.err != nil {
		s.Failed = true
		close(s.in)
		return s
	}
	m.sessions[s.id] = s
	return s
}

// Write sends p in one frame.
func (s *Session) Write(p []byte) (int, error) {
	f := s.new
	s.new = clientproto.Frame{}
	if f.Kind == 0 {
		f = clientproto.Frame{Session: s.id, Kind: clientproto.FrameKeep}
	}
	f.Data, f.Size = true, len(p)
	return len(p), s.mux.Send(f, p)
}

// WriteTo sends a datagram to a destination of its own.
func (s *Session) WriteTo(p []byte, to clientproto.Destination) error {
	return s.mux.Send(clientproto.Frame{Session: s.id, Kind: clientproto.FrameKeep, UDP: true, To: to, Data: true, Size: len(p)}, p)
}

// End tells the server that all was said.
func (s *Session) End(failed bool) error {
	return s.mux.Send(clientproto.Frame{Session: s.id, Kind: clientproto.FrameEnd, Failed: failed}, nil)
}

// Pieces are what came; it is closed when the session is over.
func (s *Session) Pieces() <-chan Piece { return s.in }

// Send writes any frame.
func (m *Mux) Send(f clientproto.Frame, p []byte) error {
	m.out.Lock()
	defer m.out.Unlock()
	_, err := m.c.Write(append(clientproto.AppendFrame(nil, f), p...))
	return err
}

func (m *Mux) read() {
	r := bufio.NewReaderSize(m.c, 32<<10)
	var err error
	for err == nil {
		err = m.frame(r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	for _, s := range m.sessions {
		s.Failed = true
		close(s.in)
	}
	clear(m.sessions)
}

func (m *Mux) frame(r *bufio.Reader) error {
	f, err := clientproto.ReadFrame(r)
	if err != nil {
		return err
	}
	p := make([]byte, f.Size)
	if _, err := io.ReadFull(r, p); err != nil {
		return err
	}
	m.mu.Lock()
	s := m.sessions[f.Session]
	if s != nil && f.Kind == clientproto.FrameEnd {
		delete(m.sessions, f.Session)
	}
	m.mu.Unlock()
	switch {
	case s == nil:
	case f.Kind == clientproto.FrameEnd:
		s.Failed = f.Failed
		close(s.in)
	case f.Data:
		s.in <- Piece{p, f.To}
	}
	return nil
}
