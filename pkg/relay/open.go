package relay

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// Open opens a stream and waits for the core's answer. It returns a *RefusedError if the core, or
// this side of the session, takes no such stream, and an error that wraps a *ResetError if the
// session was lost before the core answered; in both cases no byte of a client was spent. If ctx
// ends first, the stream is given up and the cause of ctx returned.
func (s *Session) Open(ctx context.Context, h Header) (*Stream, error) {
	header, err := h.Marshal()
	if err != nil {
		return nil, err
	}
	st, err := s.open(header)
	if err != nil {
		return nil, err
	}
	for {
		s.mu.Lock()
		live, accepted, err := st.live, st.accepted, st.err
		s.mu.Unlock()
		switch {
		case accepted:
			return st, nil // even if it has ended since: its user will see how
		case !live:
			st.Reset(CodeCanceled)
			return nil, openError(err)
		}
		select {
		case <-st.sig:
		case <-ctx.Done():
			st.Reset(CodeCanceled)
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Session) open(header []byte) (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.client:
		return nil, fmt.Errorf("relay: open stream: only an entry opens streams")
	case !s.willingLocked():
		return nil, errEnding
	case len(s.all) >= s.limitLocked():
		return nil, &RefusedError{Code: CodeLimit, Retryable: true, Text: "session is full"}
	}
	st := s.newStreamLocked()
	s.enqueueLocked(st, header)
	return st, nil
}

var errEnding = &RefusedError{Code: CodeGoingAway, Retryable: true, Text: "session is ending"}

func openError(err error) error {
	if refused, ok := err.(*RefusedError); ok {
		return refused
	}
	return fmt.Errorf("relay: open stream: %w", err)
}

// Incoming is a stream that an entry wants to open. It has to be accepted or refused, once.
type Incoming struct {
	st     *Stream
	header Header
}

// Accept waits for the next stream that the peer wants to open.
func (s *Session) Accept(ctx context.Context) (*Incoming, error) {
	for {
		if in := s.nextIncoming(); in != nil {
			return in, nil
		}
		select {
		case <-s.queued:
		case <-s.done:
			if err := s.Err(); err != nil {
				return nil, err
			}
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// nextIncoming returns the first stream in the queue that its opener has not given up.
func (s *Session) nextIncoming() *Incoming {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.incoming) > 0 {
		in := s.incoming[0]
		s.incoming[0] = nil
		s.incoming = s.incoming[1:]
		if in.st.live {
			notify(s.queued)
			return in
		}
		in.st.releaseLocked()
	}
	s.incoming = nil
	return nil
}

// Header returns the entry's claims about the stream.
func (in *Incoming) Header() Header { return in.header }

// Context returns a child of parent that also ends when the entry gives the stream up or is lost,
// with a *ResetError as its cause. It is meant for the work between Accept and the answer.
func (in *Incoming) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	in.st.watch(func(err error, _ bool) { cancel(err) })
	return ctx, func() { cancel(context.Canceled) }
}

// Accept lets the entry send. It returns a *ResetError if the entry has given the stream up.
func (in *Incoming) Accept() (*Stream, error) {
	st := in.st
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if err := in.answerLocked(); err != nil {
		return nil, err
	}
	st.onEnd = nil
	st.acceptLocked()
	st.s.controlLocked(typeAccept, st.id)
	return st, nil
}

// Refuse ends the stream. With retryable the entry may try another core. The text is for people and
// cut to 200 bytes.
func (in *Incoming) Refuse(code Code, retryable bool, text string) error {
	st := in.st
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if err := in.answerLocked(); err != nil {
		return err
	}
	st.live = false
	delete(st.s.streams, st.id)
	st.s.refuseLocked(st.id, code, retryable, text)
	st.releaseLocked()
	return nil
}

// answerLocked checks that an answer is still wanted. If not, the stream is done with.
func (in *Incoming) answerLocked() error {
	switch {
	case in.st.accepted || in.st.released:
		return fmt.Errorf("relay: answer stream: answered before")
	case in.st.err != nil:
		in.st.releaseLocked()
		return in.st.err
	}
	return nil
}

func (s *Session) refuseLocked(stream uint32, code Code, retryable bool, text string) {
	flag := byte(0)
	if retryable {
		flag = 1
	}
	text = strings.ToValidUTF8(printable(text), "")
	s.controlLocked(typeRefuse, stream, append([]byte{byte(code), flag}, text...)...)
}
