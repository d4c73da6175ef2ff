package core

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// Commands as clients send them.
const (
	cmdTCP = 1
	cmdUDP = 2 // of VLESS
	cmdMux = 3
)

func (c client) user() []byte {
	u := c.secret.UserID(mesh.DeviceID(c.Id))
	return u[:]
}

// vless is the request of a VLESS client.
func (c client) vless(command byte, to clientproto.Destination) []byte {
	b := append(append([]byte{0}, c.user()...), 0, command)
	if command == cmdMux {
		return b
	}
	return clientproto.PortFirst.Append(b, to)
}

// trojan is the request of a Trojan client.
func (c client) trojan(command byte, to clientproto.Destination) []byte {
	b := append([]byte(c.secret.TrojanKey()), '\r', '\n', command)
	return append(clientproto.PortLast.Append(b, to), '\r', '\n')
}

func at(addr string) clientproto.Destination { return clientproto.To(netip.MustParseAddrPort(addr)) }

// open is a way into the core with nothing said in it yet.
type open func(t testing.TB, w *world, s *relay.Session, c client) io.ReadWriteCloser

func openTCP(t testing.TB, w *world, s *relay.Session, c client) io.ReadWriteCloser {
	return w.connect(t, s, c)
}

func openWS(t testing.TB, w *world, s *relay.Session, c client) io.ReadWriteCloser {
	t.Helper()
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.connect(t, s, c), nil }}
	t.Cleanup(tr.CloseIdleConnections)
	ws, _, err := websocket.Dial(t.Context(), "http://"+c.name()+wsPath, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	return websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
}

// gun is a call of gRPC as clients make it.
type gun struct {
	io.Reader
	io.Writer
	out  *io.PipeWriter
	body chan io.ReadCloser
}

func openGRPC(t testing.TB, w *world, s *relay.Session, c client) io.ReadWriteCloser {
	t.Helper()
	return openCall(t, w.h2(t, s, c), c, "/"+grpcService+"/Tun")
}

// h2 is a client of HTTP/2 on one stream.
func (w *world) h2(t testing.TB, s *relay.Session, c client) *http.Transport {
	t.Helper()
	cfg := w.clientTLS(c.name())
	cfg.NextProtos = []string{"h2"}
	tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: cfg, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		st, err := s.Open(ctx, header(c))
		if err != nil {
			return nil, err
		}
		tc := tls.Client(st, cfg)
		return tc, tc.HandshakeContext(ctx)
	}}
	tr.Protocols.SetHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func openCall(t testing.TB, tr http.RoundTripper, c client, path string) io.ReadWriteCloser {
	t.Helper()
	return openCallAt(t, tr, "https://"+c.name()+path)
}

func openCallAt(t testing.TB, tr http.RoundTripper, url string) io.ReadWriteCloser {
	t.Helper()
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	g := &gun{Writer: &clientproto.HunkWriter{W: out}, out: out, body: make(chan io.ReadCloser, 1)}
	done := make(chan struct{})
	t.Cleanup(func() { _ = in.Close(); <-done })
	go func() {
		defer close(done)
		res, err := tr.RoundTrip(req)
		switch {
		case err != nil:
			g.body <- io.NopCloser(errReader{err})
		case res.StatusCode != http.StatusOK:
			_ = res.Body.Close()
			g.body <- io.NopCloser(errReader{http.ErrNotSupported})
		default:
			g.body <- res.Body
		}
	}()
	g.Reader = clientproto.NewHunkReader(g.later())
	return g
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

// later reads the answer once there is one.
func (g *gun) later() io.Reader { return &lateReader{from: g.body} }

type lateReader struct {
	from chan io.ReadCloser
	once sync.Once
	r    io.Reader
}

func (l *lateReader) Read(p []byte) (int, error) {
	l.once.Do(func() { l.r = <-l.from })
	return l.r.Read(p)
}

func (g *gun) CloseWrite() error { return g.out.Close() }
func (g *gun) Close() error      { return g.out.Close() }

// cancel has the client reset the call.
func (g *gun) cancel() { _ = g.out.CloseWithError(context.Canceled) }

var carriers = map[mesh.Transport]open{mesh.TransportTCP: openTCP, mesh.TransportWS: openWS, mesh.TransportGRPC: openGRPC}

func echoAt(t testing.TB) string {
	return destinationAt(t, func(d *net.TCPConn) { _, _ = io.Copy(d, d); _ = d.Close() })
}

// Every way there is carries bytes both ways, also those that come with the
// request, and in pieces of any size.
func TestEveryProtocolOverEveryTransport(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	echo := echoAt(t)
	for _, o := range mesh.Offers() {
		if o.Protocol != mesh.ProtocolVLESS && o.Protocol != mesh.ProtocolTrojan {
			continue
		}
		t.Run(o.String(), func(t *testing.T) {
			conn := carriers[o.Transport](t, w, s, c)
			defer conn.Close()
			head, reply := c.trojan(cmdTCP, at(echo)), 0
			if o.Protocol == mesh.ProtocolVLESS {
				head, reply = c.vless(cmdTCP, at(echo)), 2
			}
			text := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := conn.Write(append(head, text[:100]...)); err != nil {
					t.Error(err)
				}
				if _, err := conn.Write(text[100:]); err != nil {
					t.Error(err)
				}
			})
			got := make([]byte, reply+len(text))
			if _, err := io.ReadFull(conn, got); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if !bytes.Equal(got[:reply], make([]byte, reply)) || !bytes.Equal(got[reply:], text) {
				t.Errorf("got %d bytes, not what was sent", len(got))
			}
		})
	}
	u, _ := w.devices.take()
	if len(u) != 1 || u[0].GetUp() < 5*256<<10 || u[0].GetDown() < 5*256<<10 {
		t.Errorf("usage %v", u)
	}
}

// A fault of ours ends one connection.
func TestAPanicEndsOneConnection(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	w.dialer.resolve = func(context.Context, string) ([]netip.Addr, error) { panic("a fault") }
	s, echo := w.session(t), echoAt(t)
	conn := w.connect(t, s, c)
	if _, err := conn.Write(c.vless(cmdTCP, clientproto.Destination{Name: "example.com", Port: 80})); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("ended in good order: %v", err)
	}
	conn = w.connect(t, s, c)
	if _, err := conn.Write(append(c.trojan(cmdTCP, at(echo)), 'x')); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	eventually(t, "one stream is open", func() bool { _, n := w.devices.count(); return n == 1 })
}

func TestSOCKS(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	echo := echoAt(t)
	login := func(user, secret string) string {
		return "\x01" + string(byte(len(user))) + user + string(byte(len(secret))) + secret
	}
	connect := "\x05\x01\x00" + string(clientproto.PortLast.Append(nil, at(echo)))
	const ok = "\x05\x02\x01\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	for name, tt := range map[string]struct{ send, want string }{
		"right":                {"\x05\x02\x00\x02" + login(c.Id, c.secret.Reveal()) + connect + "early", ok + "early"},
		"a wrong password":     {"\x05\x01\x02" + login(c.Id, "wrong") + connect, "\x05\x02\x01\x01"},
		"another user":         {"\x05\x01\x02" + login("d-x", c.secret.Reveal()) + connect, "\x05\x02\x01\x01"},
		"no password":          {"\x05\x01\x00", "\x05\xff"},
		"another command":      {"\x05\x01\x02" + login(c.Id, c.secret.Reveal()) + "\x05\x02\x00" + connect[3:], "\x05\x02\x01\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00"},
		"a closed destination": {"\x05\x01\x02" + login(c.Id, c.secret.Reveal()) + "\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50", "\x05\x02\x01\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"},
	} {
		tc := w.connect(t, s, c)
		if _, err := io.WriteString(tc, tt.send); err != nil {
			t.Fatal(err)
		}
		if err := tc.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(tc); string(got) != tt.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A destination that resets must not look like one that finished, whatever
// carries the bytes.
func TestResetsPassEveryCarrier(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	addr := destinationAt(t, func(d *net.TCPConn) {
		_, _ = d.Read(make([]byte, 1))
		_ = d.SetLinger(0)
		_ = d.Close()
	})
	for name, open := range carriers {
		conn := open(t, w, s, c)
		if _, err := conn.Write(append(c.trojan(cmdTCP, at(addr)), 'x')); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err == nil {
			t.Errorf("%s: ended in good order with %q", name, got)
		}
	}
}

// The end of what a destination says reaches the client as an end.
func TestEndsPassEveryCarrier(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	addr := destinationAt(t, func(d *net.TCPConn) {
		_, _ = d.Read(make([]byte, 1))
		_, _ = io.WriteString(d, strings.Repeat("y", 100<<10))
		_ = d.Close()
	})
	for name, open := range carriers {
		conn := open(t, w, s, c)
		if _, err := conn.Write(append(c.trojan(cmdTCP, at(addr)), 'x')); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || len(got) != 100<<10 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		_ = conn.Close()
	}
	eventually(t, "nothing is open", func() bool { return w.egress.(*proxy).tunnels.count() == 0 })
}
