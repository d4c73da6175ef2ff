package relay

import (
	"encoding/binary"
	"fmt"
	"time"
)

const (
	outCap   = 64 << 10 // data and OPEN frames wait while this much is queued for the writer
	outSlack = 4 << 10  // room for control frames beyond it

	// Control frames are queued whatever the room, since their senders must not wait. A peer that
	// causes them and does not read them runs into this bound, by far more than a whole set of
	// streams can need.
	maxControl = 64
)

// helloLocked queues the first frame of our side.
func (s *Session) helloLocked() {
	hello := binary.BigEndian.AppendUint32(nil, uint32(s.cfg.Window))
	hello = binary.BigEndian.AppendUint32(hello, uint32(s.cfg.MaxStreams))
	hello = binary.BigEndian.AppendUint32(hello, 0) // features
	s.controlLocked(typeHello, 0, hello...)
}

// outLocked returns the frames for the writer.
func (s *Session) outLocked() *[]byte {
	if s.out == nil {
		s.out = outPool.Get().(*[]byte)
	}
	return s.out
}

// controlLocked queues a frame that does not wait for room.
func (s *Session) controlLocked(typ byte, stream uint32, payload ...byte) {
	out := s.outLocked()
	*out = append(appendFrame(*out, typ, stream, len(payload)), payload...)
	notify(s.kick)
}

// roomLocked says whether a frame with n bytes of payload may be queued for the writer now.
func (s *Session) roomLocked(n int) bool {
	return s.out == nil || len(*s.out)+headerLen+n <= outCap
}

// overdueLocked says whether the peer leaves too much unread that it caused.
func (s *Session) overdueLocked() bool {
	return s.out != nil && len(*s.out) > outCap+maxControl*s.cfg.MaxStreams+maxPayload
}

// creditLocked notes that the stream owes the peer n bytes of credit.
func (s *Session) creditLocked(st *Stream, n int) {
	if st.owed == 0 {
		s.credits = append(s.credits, st)
	}
	st.owed += n
	notify(s.kick)
}

// takeLocked returns what to write next, nil if there is nothing, and lets those who wait for room
// go on while it is being written.
func (s *Session) takeLocked() *[]byte {
	s.owedLocked()
	s.serveLocked()
	out := s.out
	s.out = nil
	s.serveLocked()
	return out
}

// owedLocked queues the answers that are kept only once however often they are due.
func (s *Session) owedLocked() {
	if s.pong != nil {
		s.controlLocked(typePong, 0, s.pong...)
		s.pong = nil
	}
	for i, st := range s.credits {
		if st.live {
			s.controlLocked(typeCredit, st.id, binary.BigEndian.AppendUint32(nil, uint32(st.owed))...)
		}
		st.owed = 0
		s.credits[i] = nil
	}
	s.credits = s.credits[:0]
}

// serveLocked queues one frame for each stream that waits, as far as there is room.
func (s *Session) serveLocked() {
	for len(s.sendq) > 0 && s.roomLocked(len(s.sendq[0].turn)) {
		st := s.sendq[0]
		s.sendq[0] = nil
		s.sendq = s.sendq[1:]
		s.putLocked(st, st.turn)
		st.turn = nil
		notify(st.sig)
	}
}

// putLocked queues p as the stream's next DATA, or as its OPEN if it has none yet.
func (s *Session) putLocked(st *Stream, p []byte) {
	typ := byte(typeData)
	if st.id == 0 {
		typ = typeOpen
		s.lastID++
		st.id = s.lastID
		s.streams[st.id] = st
	}
	out := s.outLocked()
	*out = append(appendFrame(*out, typ, st.id, len(p)), p...)
	notify(s.kick)
}

// writeLoop writes what is queued until the session ends, and then the last word. It returns an
// error if the connection cannot be written to any more.
func (s *Session) writeLoop() error {
	for {
		select {
		case <-s.kick:
			if err := s.writeQueued(); err != nil {
				s.hearOut()
				s.lose(fmt.Errorf("write: %w", err))
				return err
			}
		case <-s.done:
			return s.writeFarewell()
		}
	}
}

// hearOut waits a moment, after a goodbye, for the reader to come to the end: a peer that has closed
// the connection in good order may have said more than was read so far.
func (s *Session) hearOut() {
	s.mu.Lock()
	leaving := s.byeSent || s.byeHeard
	s.mu.Unlock()
	if !leaving {
		return
	}
	late := time.NewTimer(farewellTime)
	defer late.Stop()
	select {
	case <-s.done:
	case <-late.C:
	}
}

func (s *Session) writeQueued() error {
	for {
		s.mu.Lock()
		out, flushed, ended := s.takeLocked(), s.flush, s.ended
		s.mu.Unlock()
		switch {
		case ended:
			return nil
		case out == nil && flushed:
			s.end(nil, CodeLost, false)
			return nil
		case out == nil:
			return nil
		}
		if err := s.write(*out); err != nil {
			return err
		}
		recycle(out)
	}
}

func (s *Session) write(b []byte) error {
	// A peer that takes in nothing for so long is as dead as one that answers no ping.
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.cfg.PingEvery + s.cfg.PingTimeout)); err != nil {
		return err
	}
	if isClosed(s.done) {
		return nil // Run has set an earlier deadline, or will
	}
	_, err := s.conn.Write(b)
	return err
}

// writeFarewell tells the peer why the session ended, if there is something to tell.
func (s *Session) writeFarewell() error {
	s.mu.Lock()
	code := s.farewell
	s.mu.Unlock()
	if code == CodeLost {
		return nil
	}
	_, err := s.conn.Write(append(appendFrame(nil, typeGoodbye, 0, 1), byte(code)))
	return err
}

// recycle puts a buffer back unless a burst of control frames has made it large.
func recycle(out *[]byte) {
	if cap(*out) <= 2*outCap {
		*out = (*out)[:0]
		outPool.Put(out)
	}
}
