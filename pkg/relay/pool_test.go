package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// cores is a network of cores behind a pool, each accepting all streams and echoing.
type cores struct {
	mu       sync.Mutex
	sessions map[string][]*Session
	dials    map[string]int
	refuse   error // what dialling gives, if not nil
	wg       sync.WaitGroup
}

func (c *cores) dial(ctx context.Context, key string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials[key]++
	if c.refuse != nil {
		return nil, c.refuse
	}
	a, b := net.Pipe()
	s := Server(b, Config{})
	c.sessions[key] = append(c.sessions[key], s)
	c.wg.Go(func() { s.Run(context.Background()) })
	c.wg.Go(func() {
		for {
			in, err := s.Accept(context.Background())
			if err != nil {
				return
			}
			if st, err := in.Accept(); err == nil {
				c.wg.Go(func() { echo(st) })
			}
		}
	})
	return a, nil
}

func (c *cores) count(key string) (dials int, sessions []*Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials[key], c.sessions[key]
}

// newPool runs p over a network of cores. For use in a bubble.
func newPool(t *testing.T, p *Pool) *cores {
	c := &cores{sessions: map[string][]*Session{}, dials: map[string]int{}}
	if p.Dial == nil {
		p.Dial = c.dial
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); c.wg.Wait() })
	return c
}

func mustOpen(t *testing.T, p *Pool, key string) *Stream {
	t.Helper()
	st, err := p.Open(t.Context(), key, testHeader)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestPoolSpreadsStreamsOverSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Sessions: 3}
		c := newPool(t, p)
		if p.Active("k") {
			t.Error("active before the first stream")
		}
		var streams []*Stream
		for range 30 {
			streams = append(streams, mustOpen(t, p, "k"))
			synctest.Wait()
		}
		dials, sessions := c.count("k")
		if dials != 3 {
			t.Errorf("%d dials", dials)
		}
		for _, s := range sessions {
			if s.Streams() != 10 {
				t.Errorf("a session carries %d streams", s.Streams())
			}
		}
		if !p.Active("k") || p.Active("other") {
			t.Error("active is wrong")
		}
		for _, st := range streams {
			st.Close()
		}
	})
}

func TestPoolShareOneDialAmongFirstStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{}
		c := newPool(t, p)
		inner := p.Dial
		p.Dial = func(ctx context.Context, key string) (net.Conn, error) {
			time.Sleep(100 * time.Millisecond)
			return inner(ctx, key)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { mustOpen(t, p, "k").Close() })
		}
		wg.Wait()
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if dials, _ := c.count("k"); dials > 4 {
			t.Errorf("%d dials", dials)
		}
	})
}

func TestPoolDialsAgainAfterASessionDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Sessions: 1}
		c := newPool(t, p)
		st := mustOpen(t, p, "k")
		_, sessions := c.count("k")
		sessions[0].conn.Close()
		if _, err := st.Read(make([]byte, 1)); resetCodeOf(t, err) != CodeLost {
			t.Errorf("got %v", err)
		}
		st.Close()
		mustOpen(t, p, "k").Close()
		if dials, _ := c.count("k"); dials != 2 {
			t.Errorf("%d dials", dials)
		}
	})
}

// A session that dies while a stream waits for its answer costs that stream nothing.
func TestPoolTriesAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Sessions: 1}
		first := true
		c := newPool(t, p)
		inner := p.Dial
		p.Dial = func(ctx context.Context, key string) (net.Conn, error) {
			if !first {
				return inner(ctx, key)
			}
			first = false
			a, b := net.Pipe()
			c.wg.Go(func() { // says hello, takes the stream and dies
				peer := &rawPeer{conn: b}
				c.wg.Go(peer.read)
				b.Write(rawHello.bytes())
				synctest.Wait()
				b.Close()
			})
			return a, nil
		}
		mustOpen(t, p, "k").Close()
	})
}

func TestPoolReportsDialErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{}
		c := newPool(t, p)
		c.refuse = errors.New("no route to host")
		for range 10 {
			if _, err := p.Open(t.Context(), "k", testHeader); !errors.Is(err, c.refuse) {
				t.Errorf("got %v", err)
			}
		}
		if dials, _ := c.count("k"); dials != 1 {
			t.Errorf("%d dials at once", dials)
		}
		time.Sleep(2 * failureHold)
		c.refuse = nil
		mustOpen(t, p, "k").Close()
	})
}

func TestPoolBoundsADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{DialTimeout: time.Second, Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		newPool(t, p)
		start := time.Now()
		if _, err := p.Open(t.Context(), "k", testHeader); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		time.Sleep(time.Second)
		start = time.Now()
		if _, err := p.Open(ctx, "k", testHeader); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 100*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestCloseKeyCutsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Sessions: 2}
		newPool(t, p)
		st, other := mustOpen(t, p, "k"), mustOpen(t, p, "other")
		p.CloseKey("k", CodeRevoked)
		if _, err := st.Read(make([]byte, 1)); resetCodeOf(t, err) != CodeRevoked {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if p.Active("k") || !p.Active("other") {
			t.Error("active is wrong")
		}
		write(t, other, []byte("x"))
		st.Close()
		other.Close()
		mustOpen(t, p, "k").Close() // a new address, perhaps
	})
}

func TestCloseKeyGivesUpDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		newPool(t, p)
		opened := make(chan error)
		go func() {
			_, err := p.Open(context.Background(), "k", testHeader)
			opened <- err
		}()
		synctest.Wait()
		p.CloseKey("k", CodeRevoked)
		if err := <-opened; resetCodeOf(t, err) != CodeRevoked {
			t.Errorf("got %v", err)
		}
	})
}

func TestDrainWaitsForStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{}
		newPool(t, p)
		st := mustOpen(t, p, "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drained with a stream: %v", err)
		}
		if _, err := p.Open(t.Context(), "k", testHeader); err == nil {
			t.Error("opened while draining")
		}
		write(t, st, []byte("still works"))
		st.CloseWrite()
		if got := readAll(t, st); string(got) != "still works" {
			t.Errorf("got %q", got)
		}
		st.Close()
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestIdleSessionsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{Idle: time.Minute}
		newPool(t, p)
		busy := mustOpen(t, p, "busy")
		mustOpen(t, p, "k").Close()
		time.Sleep(30 * time.Second)
		if !p.Active("k") {
			t.Error("given up too soon")
		}
		time.Sleep(2 * time.Minute)
		if p.Active("k") || !p.Active("busy") {
			t.Error("active is wrong")
		}
		busy.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.keys) != 1 {
			t.Errorf("%d keys known", len(p.keys))
		}
	})
}

// E-13: the handshake looks fine to an entry whose certificate the core refuses; Open must fail, so
// that no byte of a client is spent, and must not try for ever.
func TestRefusedCertificateFailsTheOpen(t *testing.T) {
	var dials atomic.Int64
	p := &Pool{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		dials.Add(1)
		a, b := tcpConns(t)
		core := tls.Server(b, &tls.Config{Certificates: []tls.Certificate{certificate(t)}, ClientAuth: tls.RequireAnyClientCert})
		go func() {
			if err := core.HandshakeContext(context.Background()); err == nil {
				t.Error("core let the entry in")
			}
			core.Close()
		}()
		entry := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
		return entry, entry.HandshakeContext(ctx)
	}}
	newPool(t, p)
	start := time.Now()
	st, err := p.Open(t.Context(), "k", testHeader)
	if err == nil {
		st.Close()
		t.Fatal("opened")
	}
	if took, n := time.Since(start), dials.Load(); took > 10*time.Second || n > 1 {
		t.Errorf("took %v and %d dials", took, n)
	}
}
