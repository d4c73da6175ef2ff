package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Session is one connection between an entry and a core and the streams it carries. Its peer's
// identity was checked before. Make one with Client or Server, then call Run.
type Session struct {
	conn   net.Conn
	cfg    Config
	client bool

	kick   chan struct{} // capacity 1: the writer has something to do
	queued chan struct{} // capacity 1: a stream waits in Accept
	done   chan struct{} // closed when the session has ended

	frames atomic.Uint64 // frames read: the peer lives
	rtt    atomic.Int64  // the least round trip measured, in nanoseconds; 0: none yet
	held   atomic.Int64  // bytes received and not yet read, in all streams
	budget budget        // what windows may still grow by

	evicted atomic.Int64 // streams cut for memory since that was last logged

	mu       sync.Mutex           // guards all below, and the fields of streams that say so
	streams  map[uint32]*Stream   // those the peer knows as alive
	all      map[*Stream]struct{} // those and the ones whose user has not closed them
	lastID   uint32               // the last stream that was opened
	incoming []*Incoming          // streams that wait in Accept
	sendq    []*Stream            // streams that wait for room in out, first come first
	credits  []*Stream            // streams that owe the peer a CREDIT
	out      *[]byte              // frames for the writer; nil: none
	pong     []byte               // payload of the PONG owed to the peer
	pinged   time.Time            // when the ping under way was sent
	pings    uint64               // pings sent, the payload of the last
	peer     peerLimits           // from the peer's HELLO
	rested   time.Time            // when the last stream was closed
	byeSent  bool                 // GOODBYE was sent
	byeCode  Code                 // the code of the peer's GOODBYE
	byeHeard bool                 // GOODBYE was received
	flush    bool                 // the session ends once the writer has written everything
	ended    bool                 // done is closed
	err      error                // why, nil if in good order
	farewell Code                 // what to tell the peer last; CodeLost: nothing
}

// peerLimits is what HELLO says. Before it has come, streams may be opened as if the peer had our
// own limits: none can carry a byte before the peer answers.
type peerLimits struct {
	window  int
	streams int
}

// Client returns the entry's side of a session over conn, which it owns from now on.
func Client(conn net.Conn, cfg Config) *Session { return newSession(conn, cfg, true) }

// Server returns the core's side of a session over conn, which it owns from now on.
func Server(conn net.Conn, cfg Config) *Session { return newSession(conn, cfg, false) }

func newSession(conn net.Conn, cfg Config, client bool) *Session {
	s := &Session{
		conn:    conn,
		cfg:     cfg.withDefaults(),
		client:  client,
		kick:    make(chan struct{}, 1),
		queued:  make(chan struct{}, 1),
		done:    make(chan struct{}),
		streams: make(map[uint32]*Stream),
		all:     make(map[*Stream]struct{}),
		rested:  time.Now(),
	}
	s.peer.streams = s.cfg.MaxStreams
	s.budget.give(s.cfg.Budget)
	s.helloLocked()
	return s
}

// Run reads and writes until the session ends, then closes the connection and returns once all its
// goroutines have. The session ends when one side has said goodbye and no stream is left, when the
// peer is lost or breaks the protocol, or when ctx ends. In the last case all streams are cut, and
// a *ResetError as the cause of ctx chooses the code the peer and the streams are told (otherwise
// CodeGoingAway). Run returns nil for an end in good order, including that of ctx.
func (s *Session) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.kill(causeCode(ctx, CodeGoingAway)) })
	defer stop()
	var reading, writing sync.WaitGroup
	reading.Go(s.readLoop)
	reading.Go(s.pingLoop)
	var writeErr error
	writing.Go(func() { writeErr = s.writeLoop() })
	<-s.done
	// The writer gets a moment for the last word, even if the peer reads nothing.
	deadlineErr := s.conn.SetWriteDeadline(time.Now().Add(farewellTime))
	writing.Wait()
	s.close(errors.Join(writeErr, deadlineErr))
	reading.Wait()
	return s.Err()
}

// close closes the connection. One that could not be written to gets no TLS goodbye: that would
// take seconds, and the peer must not think that all is well.
func (s *Session) close(writeErr error) {
	conn := s.conn
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok && writeErr != nil {
		conn = t.NetConn()
	}
	if err := errors.Join(writeErr, conn.Close()); err != nil {
		s.cfg.Log.Debug("relay connection closed", "err", err)
	}
}

const farewellTime = 500 * time.Millisecond

// Goodbye tells the peer that no new streams are taken here. The open ones go on.
func (s *Session) Goodbye(code Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byeSent || s.ended {
		return
	}
	s.byeSent = true
	s.controlLocked(typeGoodbye, 0, byte(code))
	s.settleLocked()
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err says why the session ended: nil if it has not, or in good order.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return nil
	}
	return fmt.Errorf("relay: session: %w", s.err)
}

// Streams is the number of streams that are alive or not yet closed by their user.
func (s *Session) Streams() int {
	n, _, _ := s.load()
	return n
}

// Ready says whether the session may take a new stream.
func (s *Session) Ready() bool {
	_, _, ready := s.load()
	return ready
}

// willing says whether the session takes streams at all, at the moment or later.
func (s *Session) willing() bool {
	_, willing, _ := s.load()
	return willing
}

func (s *Session) load() (streams int, willing, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	willing = s.willingLocked()
	return len(s.all), willing, willing && len(s.all) < s.limitLocked()
}

// idle returns for how long the session has had no stream.
func (s *Session) idle(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) > 0 {
		return 0
	}
	return now.Sub(s.rested)
}

func (s *Session) willingLocked() bool {
	return !s.ended && !s.flush && !s.byeSent && !s.byeHeard && s.lastID < maxID
}

const maxID = 1<<32 - 1

func (s *Session) limitLocked() int { return min(s.cfg.MaxStreams, s.peer.streams) }

// kill ends the session at once and cuts its streams.
func (s *Session) kill(code Code) {
	s.end(fmt.Errorf("ended on this side: %w", &ResetError{code}), code, true)
}

// lose ends the session because of err. Streams keep what they have received. After a goodbye, and
// with no stream under way, it is no fault that the connection ends.
func (s *Session) lose(err error) {
	code := CodeLost
	if _, ok := errors.AsType[protocolError](err); ok {
		code = CodeProtocol
	} else if s.settled() {
		err = nil
	}
	s.end(err, code, false)
}

// settled says whether nothing is under way: a stream that both sides have ended may still be read
// here, and not be closed yet.
func (s *Session) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.all {
		if st.live {
			return false
		}
	}
	return s.byeHeard || s.byeSent
}

// end ends the session once. farewell is what the peer and the streams are told.
func (s *Session) end(err error, farewell Code, cut bool) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended, s.err, s.farewell = true, err, farewell
	if farewell == CodeGoingAway && cut {
		s.err = nil // asked for, and no fault
	}
	reset := &ResetError{farewell}
	if farewell == CodeLost && s.byeHeard {
		reset.Code = s.byeCode
	}
	var after []func()
	for st := range s.all {
		after = append(after, st.endLocked(reset, cut))
	}
	close(s.done)
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// settleLocked ends the session if it is idle and nothing new can come. The side that was told
// goodbye, or that opens the streams, goes first; the other waits for it.
func (s *Session) settleLocked() {
	if len(s.all) == 0 && (s.byeHeard || s.byeSent && s.client) && !s.flush {
		s.flush = true
		notify(s.kick)
	}
}
