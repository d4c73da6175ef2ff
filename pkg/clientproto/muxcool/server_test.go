package muxcool

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/clientproto/clientprototest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// opener dials whatever it is asked for.
type opener struct {
	dialed func() // unless nil, before each dial
}

func (o opener) TCP(ctx context.Context, to clientproto.Destination) (net.Conn, error) {
	if o.dialed != nil {
		o.dialed()
	}
	return new(net.Dialer).DialContext(ctx, "tcp", to.String())
}

func (o opener) UDP(context.Context) (Flow, error) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	return flow{c, make([]byte, clientproto.MaxPacket)}, err
}

type flow struct {
	*net.UDPConn
	buf []byte
}

func (f flow) Send(_ context.Context, p []byte, to clientproto.Destination) error {
	_, err := f.WriteToUDPAddrPort(p, netip.AddrPortFrom(to.Addr, to.Port))
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (f flow) Receive(take func([]byte, netip.AddrPort) error) error {
	n, from, err := f.ReadFromUDPAddrPort(f.buf)
	if err != nil {
		return err
	}
	return take(f.buf[:n], from)
}

// world is a client, connected to a server by real sockets.
type world struct {
	*clientprototest.Mux
	conn   net.Conn
	served chan error
	cancel context.CancelFunc
}

func newWorld(t testing.TB, o Opener, sessions int) *world {
	t.Helper()
	client, server := pair(t)
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{Mux: clientprototest.NewMux(client), conn: client, served: make(chan error, 1), cancel: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.served <- Serve(ctx, bufio.NewReader(server), server, o, sessions)
	}()
	t.Cleanup(func() {
		_ = client.Close()
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("Serve did not return")
		}
	})
	return w
}

// pair are the two ends of a TCP connection.
func pair(t testing.TB) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	ln := listen(t)
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// origin serves each connection by serve; it waits for all at the end.
func origin(t testing.TB, serve func(*net.TCPConn)) clientproto.Destination {
	t.Helper()
	ln := listen(t)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	return clientproto.To(ln.Addr().(*net.TCPAddr).AddrPort())
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

// all returns everything that comes until the session is over.
func all(t testing.TB, s *clientprototest.Session) []byte {
	t.Helper()
	var out bytes.Buffer
	for {
		p, ok := piece1(t, s)
		if !ok {
			return out.Bytes()
		}
		out.Write(p.Data)
	}
}

func piece1(t testing.TB, s *clientprototest.Session) (clientprototest.Piece, bool) {
	t.Helper()
	select {
	case p, ok := <-s.Pieces():
		return p, ok
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return clientprototest.Piece{}, false
}

func write(t testing.TB, s *clientprototest.Session, p string) {
	t.Helper()
	if _, err := s.Write([]byte(p)); err != nil {
		t.Fatal(err)
	}
}

func TestManyStreamsInOneConnection(t *testing.T) {
	w := newWorld(t, opener{}, 64)
	const size = 1 << 20
	to := origin(t, func(c *net.TCPConn) {
		h := sha256.New()
		_, _ = io.CopyN(h, c, size)
		_, _ = c.Write(h.Sum(nil))
		_, _ = c.Write(bytes.Repeat([]byte("x"), size))
	})
	done := make(chan bool)
	for i := range 32 {
		go func() {
			s := w.Open(to, false)
			data := bytes.Repeat([]byte{byte(i)}, size)
			for part := range chunks(data, 1+i*2000) {
				if _, err := s.Write(part); err != nil {
					t.Error(err)
				}
			}
			sum := sha256.Sum256(data)
			got := all(t, s)
			if !bytes.HasPrefix(got, sum[:]) || len(got) != len(sum)+size || s.Failed {
				t.Errorf("stream %d: %d bytes came, failed: %v", i, len(got), s.Failed)
			}
			done <- true
		}()
	}
	for range 32 {
		<-done
	}
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	n = min(max(n, 512), 65535)
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

// What the client sent before its end reaches the destination, as an end.
func TestTheClientEndsAStream(t *testing.T) {
	got := make(chan string, 1)
	to := origin(t, func(c *net.TCPConn) {
		b, err := io.ReadAll(c)
		if err != nil {
			t.Error(err)
		}
		_, _ = c.Write(make([]byte, 1<<16)) // nobody listens any more
		got <- string(b)
	})
	w := newWorld(t, opener{}, 64)
	s := w.Open(to, false)
	write(t, s, "all ")
	write(t, s, "there is")
	if err := s.End(false); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil { // with everything under way
		t.Fatal(err)
	}
	if text := <-got; text != "all there is" {
		t.Errorf("the destination read %q", text)
	}
}

func TestADestinationEndsAStream(t *testing.T) {
	w := newWorld(t, opener{}, 64)
	s := w.Open(origin(t, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)); _, _ = c.Write([]byte("bye")) }), false)
	write(t, s, "x")
	if got := all(t, s); string(got) != "bye" || s.Failed {
		t.Errorf("got %q, failed: %v", got, s.Failed)
	}
	write(t, s, "too late") // is ignored
	s = w.Open(origin(t, echo), false)
	write(t, s, "still here")
	if p, ok := piece1(t, s); string(p.Data) != "still here" || !ok {
		t.Errorf("got %q", p.Data)
	}
}

func TestWhatIsCutOffIsAReset(t *testing.T) {
	errs := make(chan error, 1)
	to := origin(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("hello"))
		_, err := io.Copy(io.Discard, c)
		errs <- err
	})
	for what, cut := range map[string]func(*world, *clientprototest.Session){
		"the client gives up":          func(_ *world, s *clientprototest.Session) { _ = s.End(true) },
		"the client ends everything":   func(w *world, _ *clientprototest.Session) { _ = w.Close() },
		"the server is told to end":    func(w *world, _ *clientprototest.Session) { w.cancel() },
		"the client speaks in tongues": func(w *world, _ *clientprototest.Session) { _ = w.Send(clientproto.Frame{Kind: 9}, nil) },
		"the client opens a number twice": func(w *world, _ *clientprototest.Session) {
			_ = w.Send(clientproto.Frame{Session: 1, Kind: clientproto.FrameNew, To: to}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, opener{}, 64)
			s := w.Open(to, false)
			write(t, s, "x")
			if p, _ := piece1(t, s); string(p.Data) != "hello" {
				t.Fatalf("got %q", p.Data)
			}
			cut(w, s)
			select {
			case err := <-errs:
				if err == nil {
					t.Error("the destination saw an end in good order")
				}
			case <-time.After(patience):
				t.Error("the destination saw nothing")
			}
		})
	}
}

func TestADestinationThatResets(t *testing.T) {
	w := newWorld(t, opener{}, 64)
	s := w.Open(origin(t, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.SetLinger(0)
	}), false)
	write(t, s, "x")
	if got := all(t, s); len(got) != 0 || !s.Failed {
		t.Errorf("got %q, failed: %v", got, s.Failed)
	}
}

func TestADestinationThatCannotBeReached(t *testing.T) {
	w := newWorld(t, opener{}, 64)
	ln := listen(t)
	to := clientproto.To(ln.Addr().(*net.TCPAddr).AddrPort())
	_ = ln.Close()
	s := w.Open(to, false)
	write(t, s, "x")
	if got := all(t, s); len(got) != 0 || !s.Failed {
		t.Errorf("got %q, failed: %v", got, s.Failed)
	}
}

func TestOneSessionTooManyIsRefused(t *testing.T) {
	w := newWorld(t, opener{}, 2)
	to := origin(t, echo)
	var open []*clientprototest.Session
	for range 2 {
		s := w.Open(to, false)
		write(t, s, "x")
		_, _ = piece1(t, s)
		open = append(open, s)
	}
	s := w.Open(to, false)
	write(t, s, "x")
	if got := all(t, s); len(got) != 0 || !s.Failed {
		t.Errorf("got %q, failed: %v", got, s.Failed)
	}
	if err := open[0].End(false); err != nil {
		t.Fatal(err)
	}
	s = w.Open(to, false)
	write(t, s, "x")
	if p, ok := piece1(t, s); string(p.Data) != "x" || !ok {
		t.Errorf("got %q", p.Data)
	}
}

// Dialling one destination takes no time from the others.
func TestASlowDialHoldsUpNobody(t *testing.T) {
	var dials atomic.Int32
	began, goOn := make(chan struct{}), make(chan struct{})
	slow := opener{dialed: func() {
		if dials.Add(1) == 1 {
			close(began)
			<-goOn
		}
	}}
	w := newWorld(t, slow, 64)
	to := origin(t, echo)
	a := w.Open(to, false)
	write(t, a, "first")
	<-began
	b := w.Open(to, false)
	write(t, b, "second")
	if p, _ := piece1(t, b); string(p.Data) != "second" {
		t.Errorf("got %q", p.Data)
	}
	close(goOn)
	if p, _ := piece1(t, a); string(p.Data) != "first" {
		t.Errorf("got %q", p.Data)
	}
}

// A destination that takes nothing holds up its connection, but neither its end
// nor the memory of the server.
func TestADestinationThatTakesNothing(t *testing.T) {
	w := newWorld(t, opener{}, 64)
	hold := make(chan struct{})
	defer close(hold)
	s := w.Open(origin(t, func(*net.TCPConn) { <-hold }), false)
	if err := w.conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	var sent int
	for part := make([]byte, 60000); ; sent += len(part) {
		if _, err := s.Write(part); err != nil {
			break
		}
	}
	if sent > 64<<20 {
		t.Errorf("%d bytes were taken", sent)
	}
	w.cancel()
	select {
	case <-w.served:
	case <-time.After(patience):
		t.Error("Serve did not return")
	}
}

// A client that reads nothing does not keep its connection from ending.
func TestAClientThatReadsNothing(t *testing.T) {
	client, server := pair(t)
	defer client.Close()
	full := make(chan struct{})
	to := origin(t, func(c *net.TCPConn) {
		part := make([]byte, 64<<10)
		for {
			_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			if _, err := c.Write(part); err != nil {
				close(full)
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, bufio.NewReader(server), server, opener{}, 4) }()
	frame := clientproto.AppendFrame(nil, clientproto.Frame{Session: 1, Kind: clientproto.FrameNew, To: to})
	if _, err := client.Write(frame); err != nil {
		t.Fatal(err)
	}
	<-full
	cancel()
	select {
	case <-served:
	case <-time.After(patience):
		t.Error("Serve did not return")
	}
}
