package relay

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A payload of at least this size keeps the chunk it was read into; a smaller one is copied
	// behind the bytes before it, so that tiny frames do not each hold a chunk.
	keepChunk = maxPayload / 4 * 3

	maxBatch = 16 // chunks that WriteTo hands over at once
)

// recvQueue is the receive side of a stream: what has arrived and was not read.
type recvQueue struct {
	sig chan struct{} // capacity 1: something changed

	mu     sync.Mutex // guards all below
	win    window
	chunks []*chunk
	eof    bool  // FIN arrived
	err    error // why reading ends, after what is queued
	closed bool  // nobody reads any more: what arrives is dropped
}

// admit takes n bytes off the peer's credit before they are read from the connection. keep is false
// if nobody wants them.
func (q *recvQueue) admit(n int) (keep bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.eof:
		return false, protocolErrorf("data after fin")
	case !q.win.receive(n):
		return false, protocolErrorf("data beyond the credit")
	}
	if q.closed {
		q.win.held -= n
	}
	return !q.closed, nil
}

// push queues what admit has let in, unless the stream was closed meanwhile.
func (q *recvQueue) push(c *chunk, held *atomic.Int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.win.held -= c.w
		c.free()
		return
	}
	held.Add(int64(c.w))
	if c.w >= keepChunk {
		q.chunks = append(q.chunks, c)
	} else {
		q.pack(c)
	}
	notify(q.sig)
}

func (q *recvQueue) pack(c *chunk) {
	p := c.bytes()
	if len(q.chunks) > 0 {
		p = p[q.chunks[len(q.chunks)-1].fill(p):]
	}
	if len(p) > 0 {
		tail := newChunk(len(p))
		tail.fill(p)
		q.chunks = append(q.chunks, tail)
	}
	c.free()
}

// fin notes that the peer is done. It returns false if it already was.
func (q *recvQueue) fin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.eof {
		return false
	}
	q.eof = true
	notify(q.sig)
	return true
}

// fail ends reading with err once what is queued was read.
func (q *recvQueue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	notify(q.sig)
}

// drop frees what is queued and what will come; reading ends with err. Bytes handed out by take stay
// accounted for.
func (q *recvQueue) drop(held *atomic.Int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.err = err
	for _, c := range q.chunks {
		held.Add(-int64(len(c.bytes())))
		q.win.held -= len(c.bytes())
		c.free()
	}
	q.chunks = nil
	notify(q.sig)
}

// endLocked says why there is nothing to read: nil if something may still come.
func (q *recvQueue) endLocked() error {
	switch {
	case q.closed:
		return q.err
	case q.eof:
		return io.EOF
	}
	return q.err
}

// copyTo reads into p. With nothing queued it returns 0 and nil, or why nothing will come.
func (q *recvQueue) copyTo(p []byte) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n < len(p) && len(q.chunks) > 0 {
		c := q.chunks[0]
		k := copy(p[n:], c.bytes())
		n += k
		c.r += k
		if c.r == c.w {
			q.popLocked(1)
			c.free()
		}
	}
	if n == 0 {
		err = q.endLocked()
	}
	return n, err
}

// take hands over up to maxBatch chunks, which the caller frees, and accounts for with done.
func (q *recvQueue) take(batch []*chunk) ([]*chunk, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(maxBatch, len(q.chunks))
	if n == 0 {
		return batch, q.endLocked()
	}
	batch = append(batch, q.chunks[:n]...)
	q.popLocked(n)
	return batch, nil
}

func (q *recvQueue) popLocked(n int) {
	clear(q.chunks[:n])
	if q.chunks = q.chunks[n:]; len(q.chunks) == 0 {
		q.chunks = nil
	}
}

// done accounts for n bytes that were read and returns the credit to grant.
func (q *recvQueue) done(n int, rtt time.Duration, s *Session) int {
	s.held.Add(-int64(n))
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.eof {
		q.win.held -= n
		return 0
	}
	return q.win.read(n, rtt, &s.budget)
}

// holds returns the bytes that wait for the reader and could be dropped.
func (q *recvQueue) holds() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0
	}
	return q.win.held
}

// rest gives back what the window grew by if it saw no grant since t.
func (q *recvQueue) rest(t time.Time, b *budget) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.win.rest(t, b)
}

// retire gives back all that the stream still holds.
func (q *recvQueue) retire(s *Session) {
	q.drop(&s.held, net.ErrClosed)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.win.resize(q.win.initial, &s.budget)
}

func (q *recvQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// notify wakes the one that waits on sig, or the next one to.
func notify(sig chan struct{}) {
	select {
	case sig <- struct{}{}:
	default:
	}
}
