package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// flow is a client and a destination with an entry and a core between them.
type flow struct {
	*pair
	client, destination *net.TCPConn
	cancel              context.CancelCauseFunc // of the entry's side
	meter               *Meter
	ended               chan [2]Summary
}

func newFlow(t *testing.T, cfg Config) *flow {
	t.Helper()
	return flowOver(t, tlsPair(t, cfg))
}

func flowOver(t *testing.T, p *pair) *flow {
	t.Helper()
	client, atEntry := tcpConns(t)
	atCore, destination := tcpConns(t)
	entry, core := p.open(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	f := &flow{pair: p, client: client, destination: destination, cancel: cancel, meter: new(Meter), ended: make(chan [2]Summary, 1)}
	var wg sync.WaitGroup
	var sums [2]Summary
	wg.Go(func() { sums[0] = Join(ctx, atEntry, entry, f.meter) })
	wg.Go(func() { sums[1] = Join(context.Background(), core, atCore, nil) })
	done := make(chan struct{})
	go func() { wg.Wait(); f.ended <- sums; close(done) }()
	t.Cleanup(func() { cancel(nil); p.cancel(nil); <-done })
	return f
}

func (f *flow) summaries(t *testing.T) [2]Summary {
	t.Helper()
	select {
	case s := <-f.ended:
		return s
	case <-time.After(20 * time.Second):
		t.Fatal("the flow goes on")
		return [2]Summary{}
	}
}

// wantReset checks that the next read of c reports RST, not an end.
func wantReset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

// E-10 (a): the client is done, and the destination sends 1 MiB more.
func TestClientFinLetsTheAnswerThrough(t *testing.T) {
	f := newFlow(t, Config{})
	write(t, f.client, []byte("request"))
	f.client.CloseWrite()
	if got := readAll(t, f.destination); string(got) != "request" {
		t.Errorf("got %q", got)
	}
	answer := random(1 << 20)
	var wg sync.WaitGroup
	wg.Go(func() { write(t, f.destination, answer); f.destination.CloseWrite() })
	if got := readAll(t, f.client); !bytes.Equal(got, answer) {
		t.Errorf("got %d bytes", len(got))
	}
	wg.Wait()
	for _, s := range f.summaries(t) {
		if s != (Summary{Up: 7, Down: 1 << 20}) {
			t.Errorf("summary %+v", s)
		}
	}
}

// E-10 (b), (c): one side is done and the other quiet: the flow stays, and can still be used.
func TestQuietHalfClosedFlowStays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sides func(*flow) (done, quiet *net.TCPConn)
	}{
		{"client done, destination quiet", func(f *flow) (done, quiet *net.TCPConn) { return f.client, f.destination }},
		{"destination done, client quiet", func(f *flow) (done, quiet *net.TCPConn) { return f.destination, f.client }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlow(t, Config{PingEvery: 20 * time.Millisecond, PingTimeout: 10 * time.Second})
			done, quiet := tt.sides(f)
			done.CloseWrite()
			readAll(t, quiet)
			select {
			case s := <-f.ended:
				t.Fatalf("ended: %+v", s)
			case <-time.After(100 * time.Millisecond):
			}
			write(t, quiet, []byte("late"))
			quiet.CloseWrite()
			if got := readAll(t, done); string(got) != "late" {
				t.Errorf("got %q", got)
			}
			for _, s := range f.summaries(t) {
				if s.Err != nil {
					t.Error(s.Err)
				}
			}
		})
	}
}

func TestResetIsPassedOnAsReset(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sides func(*flow) (from, to *net.TCPConn)
	}{
		{"from the client", func(f *flow) (from, to *net.TCPConn) { return f.client, f.destination }},
		{"from the destination", func(f *flow) (from, to *net.TCPConn) { return f.destination, f.client }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlow(t, Config{})
			from, to := tt.sides(f)
			write(t, from, []byte("x"))
			if _, err := io.ReadFull(to, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			from.SetLinger(0)
			from.Close()
			wantReset(t, to)
			for _, s := range f.summaries(t) {
				if s.Err == nil {
					t.Error("no error in the summary")
				}
			}
			eventually(t, "streams over", func() bool { return f.entry.Streams()+f.core.Streams() == 0 })
		})
	}
}

func TestSessionThatDiesResetsItsFlows(t *testing.T) {
	a, b := tlsConns(t)
	p := run(t, a, b, Config{})
	f := flowOver(t, p)
	write(t, f.client, []byte("x"))
	if _, err := io.ReadFull(f.destination, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	b.NetConn().Close() // no close_notify, no goodbye
	wantReset(t, f.client)
	wantReset(t, f.destination)
	f.summaries(t)
	entryErr, coreErr := p.wait()
	if entryErr == nil || coreErr == nil {
		t.Errorf("sessions ended with %v and %v", entryErr, coreErr)
	}
}

func TestEndOfContextCutsTheFlow(t *testing.T) {
	f := newFlow(t, Config{})
	cause := &ResetError{CodeRevoked}
	f.cancel(cause)
	wantReset(t, f.client)
	wantReset(t, f.destination)
	s := f.summaries(t)
	if s[0].Err != cause {
		t.Errorf("entry: %v", s[0].Err)
	}
	if got := resetCodeOf(t, s[1].Err); got != CodeRevoked {
		t.Errorf("core: %v", got)
	}
}

// A client that reads nothing must not keep a revoked core's session: cutting it cuts the flow even
// while bytes wait for the client.
func TestCutReachesAFlowThatIsStuck(t *testing.T) {
	f := newFlow(t, Config{})
	var wg sync.WaitGroup
	wg.Go(func() { io.Copy(f.destination, zeros{}) })
	var seen int64
	since := time.Now()
	eventually(t, "stuck", func() bool {
		if n := f.meter.Down.Load(); n != seen {
			seen, since = n, time.Now()
		}
		return seen > 0 && time.Since(since) > 50*time.Millisecond
	})
	f.entry.kill(CodeRevoked)
	wantReset(t, f.client)
	f.summaries(t)
	wg.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestMeterCountsWhileBytesPass(t *testing.T) {
	f := newFlow(t, Config{})
	write(t, f.client, make([]byte, 1000))
	write(t, f.destination, make([]byte, 2000))
	eventually(t, "counted", func() bool { return f.meter.Up.Load() == 1000 && f.meter.Down.Load() == 2000 })
}

// A TLS connection over a stream, as the proxying core has it, joins like any other.
func TestJoinOfOtherConnections(t *testing.T) {
	a, b := tlsConns(t)
	atCore, destination := tcpConns(t)
	var wg sync.WaitGroup
	var sum Summary
	wg.Go(func() { sum = Join(t.Context(), b, atCore, nil) })
	up, down := random(200<<10), random(300<<10)
	wg.Go(func() { write(t, a, up); a.CloseWrite() })
	wg.Go(func() { write(t, destination, down); destination.CloseWrite() })
	if got := readAll(t, destination); !bytes.Equal(got, up) {
		t.Errorf("up: got %d bytes", len(got))
	}
	if got := readAll(t, a); !bytes.Equal(got, down) {
		t.Errorf("down: got %d bytes", len(got))
	}
	wg.Wait()
	if sum.Up != int64(len(up)) || sum.Down != int64(len(down)) || sum.Err != nil {
		t.Errorf("summary %+v", sum)
	}
}

// fakeHalf reads from r and writes to w.
type fakeHalf struct {
	r      io.Reader
	w      io.Writer
	fins   int
	closed int
}

func (h *fakeHalf) Read(p []byte) (int, error)  { return h.r.Read(p) }
func (h *fakeHalf) Write(p []byte) (int, error) { return h.w.Write(p) }
func (h *fakeHalf) CloseWrite() error           { h.fins++; return nil }
func (h *fakeHalf) Close() error                { h.closed++; return nil }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The destination no longer takes the client's bytes, but its answer is on its way.
func TestWriteErrorLosesNothingOfTheOtherDirection(t *testing.T) {
	broken := make(chan struct{})
	answer, release := io.Pipe()
	want := random(300 << 10)
	var got bytes.Buffer
	client := &fakeHalf{r: bytes.NewReader([]byte("request")), w: &got}
	server := &fakeHalf{r: answer, w: writerFunc(func([]byte) (int, error) {
		close(broken)
		return 0, syscall.EPIPE
	})}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-broken
		release.Write(want)
		release.Close()
	})
	sum := Join(t.Context(), client, server, nil)
	wg.Wait()
	if !bytes.Equal(got.Bytes(), want) || sum.Down != int64(len(want)) {
		t.Errorf("got %d of %d bytes", got.Len(), len(want))
	}
	if !errors.Is(sum.Err, syscall.EPIPE) || client.fins != 0 || client.closed != 1 || server.closed != 1 {
		t.Errorf("ended with %v, %d fins, closed %d and %d", sum.Err, client.fins, client.closed, server.closed)
	}
}

// E-10: many flows that end in every way leave nothing behind.
func TestManyFlowsLeaveNothingBehind(t *testing.T) {
	p := tlsPair(t, Config{})
	var wg sync.WaitGroup
	var shared Meter
	var up, down atomic.Int64
	for i := range 200 {
		client, atEntry := tcpConns(t)
		atCore, destination := tcpConns(t)
		entry, core := p.open(t)
		wg.Go(func() {
			sum := Join(t.Context(), atEntry, entry, &shared)
			up.Add(sum.Up)
			down.Add(sum.Down)
		})
		wg.Go(func() { Join(t.Context(), core, atCore, nil) })
		wg.Go(func() { io.Copy(destination, destination); destination.Close() })
		wg.Go(func() {
			defer client.Close()
			switch i % 3 {
			case 0:
				client.Write(make([]byte, 1000))
				client.CloseWrite()
				io.Copy(io.Discard, client)
			case 1:
				client.Write(make([]byte, 1000))
				client.SetLinger(0)
			}
		})
	}
	wg.Wait()
	eventually(t, "all over", func() bool { return p.entry.Streams()+p.core.Streams() == 0 })
	if held := p.entry.held.Load() + p.core.held.Load(); held != 0 {
		t.Errorf("%d bytes held", held)
	}
	if up.Load() != shared.Up.Load() || down.Load() != shared.Down.Load() || up.Load() < 67*1000 {
		t.Errorf("summaries say %d and %d, the shared meter %d and %d", up.Load(), down.Load(), shared.Up.Load(), shared.Down.Load())
	}
}
