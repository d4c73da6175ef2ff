package relay

import (
	"net"
	"os"
	"time"
)

// Write implements net.Conn. It returns once all bytes are queued for the connection, which the
// peer's credit and the session's other streams may delay.
func (st *Stream) Write(p []byte) (int, error) {
	st.wmu.Lock()
	defer st.wmu.Unlock()
	total := 0
	for len(p) > 0 {
		n, err := st.writeFrame(p)
		total += n
		p = p[n:]
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// writeFrame queues as much of p as goes into one frame. Frames of different streams take turns.
func (st *Stream) writeFrame(p []byte) (int, error) {
	if isClosed(st.wdl.passed()) {
		return 0, os.ErrDeadlineExceeded
	}
	st.s.mu.Lock()
	if err := st.writeErrLocked(); err != nil {
		st.s.mu.Unlock()
		return 0, err
	}
	n := min(len(p), maxData, st.credit)
	if n == 0 {
		st.s.mu.Unlock()
		return 0, st.waitWritable()
	}
	st.credit -= n
	queued := st.s.enqueueLocked(st, p[:n])
	st.s.mu.Unlock()
	if !queued {
		return st.waitTurn(n)
	}
	return n, nil
}

// enqueueLocked queues p as the stream's next frame if there is room and nobody waits for it;
// otherwise the stream takes its turn.
func (s *Session) enqueueLocked(st *Stream, p []byte) bool {
	if len(s.sendq) == 0 && s.roomLocked(len(p)) {
		s.putLocked(st, p)
		return true
	}
	st.turn = p
	s.sendq = append(s.sendq, st)
	notify(s.kick)
	return false
}

// waitTurn waits until the frame of n bytes is queued.
func (st *Stream) waitTurn(n int) (int, error) {
	for {
		err := st.waitWritable()
		st.s.mu.Lock()
		ended := st.writeErrLocked()
		waiting := st.turn != nil
		if waiting && err != nil {
			st.leaveLocked()
		}
		st.s.mu.Unlock()
		switch {
		case ended != nil:
			return 0, ended
		case !waiting:
			return n, nil
		case err != nil:
			return 0, err
		}
	}
}

func (st *Stream) writeErrLocked() error {
	switch {
	case st.released:
		return net.ErrClosed
	case st.err != nil:
		return st.err
	case st.finSent:
		return net.ErrClosed
	}
	return nil
}

func (st *Stream) waitWritable() error {
	passed := st.wdl.passed()
	if isClosed(passed) {
		return os.ErrDeadlineExceeded
	}
	select {
	case <-st.sig:
	case <-passed:
	}
	return nil
}

// LocalAddr implements net.Conn with the session's address.
func (st *Stream) LocalAddr() net.Addr { return st.s.conn.LocalAddr() }

// RemoteAddr implements net.Conn with the address of the session's peer, not of the client.
func (st *Stream) RemoteAddr() net.Addr { return st.s.conn.RemoteAddr() }

// SetDeadline implements net.Conn.
func (st *Stream) SetDeadline(t time.Time) error {
	_ = st.SetReadDeadline(t) // neither can fail
	return st.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (st *Stream) SetReadDeadline(t time.Time) error {
	st.rdl.set(t)
	notify(st.recv.sig)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (st *Stream) SetWriteDeadline(t time.Time) error {
	st.wdl.set(t)
	notify(st.sig)
	return nil
}
