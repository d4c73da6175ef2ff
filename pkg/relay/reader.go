package relay

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Larger payloads are read past this buffer, right into the memory of their stream.
const readBuffer = 4 << 10

// readLoop reads frames until the connection or the protocol breaks. It waits for nothing else.
func (s *Session) readLoop() {
	r := &reader{Session: s, br: bufio.NewReaderSize(s.conn, readBuffer)}
	for {
		if err := r.next(); err != nil {
			s.lose(err)
			return
		}
		s.frames.Add(1)
	}
}

// reader is the state that belongs to the reading goroutine alone.
type reader struct {
	*Session
	br      *bufio.Reader
	greeted bool
	small   [8]byte
}

// next reads one frame and acts on it.
func (r *reader) next() error {
	b, err := r.br.Peek(headerLen)
	switch {
	case err == io.EOF && len(b) == 0:
		return fmt.Errorf("closed by peer: %w", io.EOF)
	case err != nil:
		return fmt.Errorf("read: %w", unexpected(err))
	}
	f := parseFrame(b)
	if _, err := r.br.Discard(headerLen); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := f.check(); err != nil {
		return err
	}
	if r.greeted == (f.typ == typeHello) {
		return protocolErrorf("frame type %d where hello is expected first and once", f.typ)
	}
	return r.act(f)
}

func (r *reader) act(f frame) error {
	switch f.typ {
	case typeHello:
		return r.hello(f)
	case typeOpen:
		return r.opened(f)
	case typeData:
		return r.data(f)
	case typeRefuse:
		return r.refused(f)
	}
	if f.typ >= typeReserved {
		return r.skip(f.length)
	}
	p := r.small[:f.length] // the rest is short
	if _, err := io.ReadFull(r.br, p); err != nil {
		return fmt.Errorf("read: %w", unexpected(err))
	}
	return r.control(f, p)
}

// control acts on the frames of a fixed and short payload.
func (r *reader) control(f frame, p []byte) error {
	switch f.typ {
	case typeAccept:
		return r.accepted(f)
	case typeCredit:
		return r.credit(f, p)
	case typeFin:
		return r.fin(f)
	case typeReset:
		return r.reset(f, Code(p[0]))
	case typePing:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Session.pong = append(r.Session.pong[:0], p...)
		notify(r.kick)
	case typePong:
		r.answered(binary.BigEndian.Uint64(p))
	case typeGoodbye:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.byeHeard, r.byeCode = true, Code(p[0])
		r.settleLocked()
	}
	return nil
}

func (r *reader) hello(f frame) error {
	p, err := r.payload(f.length)
	if err != nil {
		return err
	}
	r.greeted = true
	window, streams := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
	if window > maxCredit {
		return protocolErrorf("window of %d bytes", window)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peer = peerLimits{window: int(window), streams: int(min(streams, 1<<30))}
	return nil
}

// data queues the payload at its stream.
func (r *reader) data(f frame) error {
	st, err := r.stream(f)
	if err != nil {
		return err
	}
	if st == nil {
		return r.skip(f.length)
	}
	keep, err := st.recv.admit(f.length)
	if err != nil {
		return err
	}
	if !keep {
		return r.skip(f.length)
	}
	c := newChunk(maxPayload)
	if _, err := io.ReadFull(r.br, c.b[:f.length]); err != nil {
		c.free()
		return fmt.Errorf("read: %w", unexpected(err))
	}
	c.w = f.length
	st.recv.push(c, &r.held)
	if r.held.Load() > 2*int64(r.cfg.Budget) {
		r.evict()
	}
	return nil
}

// stream returns the stream a frame belongs to: nil if it is over already, since the peer may have
// sent the frame before it learnt that.
func (r *reader) stream(f frame) (*Stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.streams[f.stream]
	switch {
	case st == nil && f.stream > r.lastID:
		return nil, protocolErrorf("frame type %d on a stream never opened", f.typ)
	case st != nil && !st.accepted && f.typ != typeReset:
		return nil, protocolErrorf("frame type %d on a stream not yet accepted", f.typ)
	}
	return st, nil
}

func (r *reader) payload(n int) ([]byte, error) {
	p := make([]byte, n)
	if _, err := io.ReadFull(r.br, p); err != nil {
		return nil, fmt.Errorf("read: %w", unexpected(err))
	}
	return p, nil
}

func (r *reader) skip(n int) error {
	if _, err := r.br.Discard(n); err != nil {
		return fmt.Errorf("read: %w", unexpected(err))
	}
	return nil
}

// unexpected makes the end of the bytes inside a frame an error that says so.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// answered takes the PONG to the last ping.
func (s *Session) answered(payload uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if payload != s.pings {
		return
	}
	rtt := max(int64(time.Since(s.pinged)), 1)
	if least := s.rtt.Load(); least == 0 || rtt < least {
		s.rtt.Store(rtt)
	}
}
