package relay

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Stream is one client connection inside a session. It is a net.Conn whose two directions end by
// themselves: CloseWrite sends FIN, and Read returns io.EOF only after the peer's FIN. When the
// peer resets the stream or the session is lost, Read returns a *ResetError after what has arrived
// before, and Write at once. Every stream has to be closed, by Close or Reset; until then it counts
// against the session's limit.
type Stream struct {
	s    *Session
	recv recvQueue
	sig  chan struct{} // capacity 1: something changed for who sends or waits for ACCEPT

	rmu, wmu sync.Mutex // one Read and one Write at a time
	rdl, wdl deadline

	// Guarded by s.mu.
	id       uint32 // 0: not yet opened
	live     bool   // the peer knows it, or will
	accepted bool
	released bool // closed by its user
	closedAt time.Time
	credit   int    // bytes that may be sent
	turn     []byte // what waits for room in s.out; never empty if st is in s.sendq
	owed     int    // credit to send to the peer; not zero if st is in s.credits
	finSent  bool
	finHeard bool
	err      error // why it ended, other than by FINs
	onEnd    func(err error, cut bool)
}

func (s *Session) newStreamLocked() *Stream {
	st := &Stream{s: s, live: true, sig: make(chan struct{}, 1)}
	st.recv.sig = make(chan struct{}, 1)
	st.recv.win = window{size: s.cfg.Window, open: s.cfg.Window, initial: s.cfg.Window, max: s.cfg.MaxWindow}
	s.all[st] = struct{}{}
	return st
}

// Read implements net.Conn.
func (st *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	st.rmu.Lock()
	defer st.rmu.Unlock()
	for {
		passed := st.rdl.passed()
		if isClosed(passed) {
			return 0, os.ErrDeadlineExceeded
		}
		n, err := st.recv.copyTo(p)
		if n > 0 || err != nil {
			st.grant(n)
			return n, err
		}
		st.waitReadable(passed)
	}
}

func (st *Stream) waitReadable(passed <-chan struct{}) {
	select {
	case <-st.recv.sig:
	case <-passed:
	}
}

// WriteTo implements io.WriterTo: it writes what arrives straight from where it was received. Credit
// is granted once the bytes are written, so that a slow w holds back the peer.
func (st *Stream) WriteTo(w io.Writer) (int64, error) {
	count := tally{shared: new(atomic.Int64)}
	readErr, writeErr := st.copyTo(w, &count)
	if readErr == nil || readErr == io.EOF {
		return count.n, writeErr
	}
	return count.n, readErr
}

// copyTo does what WriteTo does, counts while it does, and tells the two kinds of error apart. The
// peer's FIN is io.EOF.
func (st *Stream) copyTo(w io.Writer, count *tally) (readErr, writeErr error) {
	st.rmu.Lock()
	defer st.rmu.Unlock()
	for {
		passed := st.rdl.passed()
		if isClosed(passed) {
			return os.ErrDeadlineExceeded, nil
		}
		some, readErr, writeErr := st.passBatch(w, count)
		if readErr != nil || writeErr != nil {
			return readErr, writeErr
		}
		if !some {
			st.waitReadable(passed)
		}
	}
}

// passBatch writes what is queued, up to a batch. some is false if there was nothing.
func (st *Stream) passBatch(w io.Writer, count *tally) (some bool, readErr, writeErr error) {
	b := batchPool.Get().(*batch)
	defer batchPool.Put(b)
	if err := b.take(&st.recv); err != nil || len(b.chunks) == 0 {
		return false, err, nil
	}
	n, err := b.writeTo(w)
	count.add(n)
	st.grant(b.free())
	return true, nil, err
}

// grant accounts for n bytes read and lets the peer send more when enough were.
func (st *Stream) grant(n int) {
	if n == 0 {
		return
	}
	credit := st.recv.done(n, time.Duration(st.s.rtt.Load()), st.s)
	if credit == 0 {
		return
	}
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.live {
		st.s.creditLocked(st, credit)
	}
}

// CloseWrite sends FIN: no more bytes will come from here. Reading goes on.
func (st *Stream) CloseWrite() error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.err != nil {
		return st.err
	}
	st.finLocked()
	st.settleLocked()
	return nil
}

// Close sends FIN and drops what the peer still sends. It is what a user does that is finished with
// the stream; to tell the peer that something went wrong, use Reset.
func (st *Stream) Close() error {
	st.s.mu.Lock()
	if st.live {
		st.finLocked()
	}
	st.releaseLocked()
	st.settleLocked()
	st.s.mu.Unlock()
	st.recv.drop(&st.s.held, net.ErrClosed)
	return nil
}

// Reset ends both directions at once and tells the peer why.
func (st *Stream) Reset(code Code) {
	st.s.mu.Lock()
	st.resetLocked(code)
	after := st.endLocked(net.ErrClosed, true)
	st.releaseLocked()
	st.s.mu.Unlock()
	after()
}

// cut does as Reset for a stream whose user does not expect it.
func (st *Stream) cut(code Code) {
	st.s.mu.Lock()
	st.resetLocked(code)
	after := st.endLocked(&ResetError{code}, true)
	st.s.mu.Unlock()
	after()
}

// resetLocked queues RST if the peer knows the stream. RST must not overtake OPEN, therefore it
// waits behind what is queued.
func (st *Stream) resetLocked(code Code) {
	if st.live && st.id != 0 {
		st.s.controlLocked(typeReset, st.id, byte(code))
	}
}

func (st *Stream) finLocked() {
	if st.finSent {
		return
	}
	st.finSent = true
	st.leaveLocked()
	st.s.controlLocked(typeFin, st.id)
	notify(st.sig)
}

func (st *Stream) acceptLocked() {
	st.accepted = true
	st.credit = st.s.peer.window
	notify(st.sig)
}

// leaveLocked gives up waiting for room. It returns false if the frame was queued already.
func (st *Stream) leaveLocked() bool {
	if st.turn == nil {
		return false
	}
	if st.id != 0 {
		st.credit += len(st.turn)
	}
	st.turn = nil
	i := slices.Index(st.s.sendq, st)
	st.s.sendq = slices.Delete(st.s.sendq, i, i+1)
	return true
}

// settleLocked forgets the stream once both sides have sent FIN.
func (st *Stream) settleLocked() {
	if st.live && st.finSent && st.finHeard {
		st.live = false
		delete(st.s.streams, st.id)
		st.retireLocked()
	}
}

// endLocked ends both directions because of err. With cut, what has arrived is dropped too, even if
// the stream was over before. The function it returns is to be called without the lock.
func (st *Stream) endLocked(err error, cut bool) func() {
	if st.live {
		st.live = false
		st.leaveLocked()
		delete(st.s.streams, st.id)
		st.err = err
		st.recv.fail(err)
		notify(st.sig)
	}
	if cut {
		st.recv.drop(&st.s.held, err)
	}
	st.retireLocked()
	if onEnd := st.onEnd; onEnd != nil {
		return func() { onEnd(err, cut) }
	}
	return func() {}
}

// endStream ends a stream for both directions.
func (s *Session) endStream(st *Stream, err error, cut bool) {
	s.mu.Lock()
	after := st.endLocked(err, cut)
	s.mu.Unlock()
	after()
}

// releaseLocked notes that the user is finished with the stream.
func (st *Stream) releaseLocked() {
	if st.released {
		return
	}
	st.released = true
	st.closedAt = time.Now()
	st.onEnd = nil
	st.retireLocked()
}

// retireLocked makes room for another stream once nobody knows this one any more.
func (st *Stream) retireLocked() {
	if _, ok := st.s.all[st]; !ok || st.live || !st.released {
		return
	}
	delete(st.s.all, st)
	st.recv.retire(st.s)
	st.s.rested = time.Now()
	st.s.settleLocked()
}

// watch has f called when the stream ends other than by FINs: with cut if what has arrived was
// dropped too. Only the last f counts. f must not block.
func (st *Stream) watch(f func(err error, cut bool)) {
	st.s.mu.Lock()
	err := st.err
	if !st.released {
		st.onEnd = f
	}
	st.s.mu.Unlock()
	if err != nil {
		f(err, st.recv.isClosed())
	}
}
