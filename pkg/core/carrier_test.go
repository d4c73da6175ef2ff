package core

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Paths are replaced while the core runs: for a while both work, then the old
// one is not there.
func TestPathsAreReplaced(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s, echo := w.session(t), echoAt(t)
	open := func(path string) bool {
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.connect(t, s, c), nil }}
		defer tr.CloseIdleConnections()
		ws, res, err := websocket.Dial(t.Context(), "http://"+c.name()+path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
		if err != nil {
			if res == nil || res.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %v, %v", path, res, err)
			}
			return false
		}
		_ = ws.CloseNow()
		return true
	}
	live := openWS(t, w, s, c)
	if _, err := live.Write(append(c.trojan(cmdTCP, at(echo)), 'a')); err != nil {
		t.Fatal(err)
	}
	if !open(wsPath) || !open("/old-path") || open("/third") {
		t.Error("before")
	}
	cfg := everything(&controlpb.Config{Revision: 2, CellSuffix: suffix, CellId: "cell-1"})
	cfg.WebsocketPaths, cfg.GrpcServices = []string{wsPath, "/third"}, []string{"third"}
	if err := w.ApplyConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if !open(wsPath) || open("/old-path") || !open("/third") {
		t.Error("after")
	}
	if _, err := live.Write([]byte{'b'}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(live, got); err != nil || string(got) != "ab" {
		t.Errorf("what was open: %q, %v", got, err)
	}
}

// V2Ray and its relatives can put the first bytes into the handshake.
func TestEarlyDataOfAWebSocket(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s, echo := w.session(t), echoAt(t)
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.connect(t, s, c), nil }}
	defer tr.CloseIdleConnections()
	early := base64.RawURLEncoding.EncodeToString(append(c.vless(cmdTCP, at(echo)), "early"...))
	ws, _, err := websocket.Dial(t.Context(), "http://"+c.name()+wsPath, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}, Subprotocols: []string{early}})
	if err != nil {
		t.Fatal(err)
	}
	conn := websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
	defer conn.Close()
	if _, err := io.WriteString(conn, " and late"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2+14)
	if _, err := io.ReadFull(conn, got); err != nil || string(got[2:]) != "early and late" {
		t.Errorf("%q, %v", got, err)
	}
}

// A client that has closed its WebSocket or its call is gone. What it sent
// arrives, with its end, and then its destination is not kept open for nobody.
func TestNobodyIsWaitedForWhenTheClientIsGone(t *testing.T) {
	for _, over := range []mesh.Transport{mesh.TransportWS, mesh.TransportGRPC} {
		t.Run(string(over), func(t *testing.T) {
			w := newWorld(t)
			h := w.egress.(*proxy)
			h.linger = 50 * time.Millisecond
			c := newClient()
			w.know(t, c)
			got, ended, said := make(chan error, 1), make(chan error, 1), []byte("last words")
			addr := destinationAt(t, func(d *net.TCPConn) {
				defer d.Close()
				b := make([]byte, len(said))
				if _, err := io.ReadFull(d, b); err != nil || !bytes.Equal(b, said) {
					t.Errorf("arrived: %q, %v", b, err)
				}
				got <- nil
				_, err := d.Read(b)
				got <- err
				for { // deaf to the end
					if _, err := d.Write([]byte("x")); err != nil {
						ended <- err
						return
					}
					<-time.After(10 * time.Millisecond)
				}
			})
			conn := carriers[over](t, w, w.session(t), c)
			if _, err := conn.Write(append(c.trojan(cmdTCP, at(addr)), said...)); err != nil {
				t.Fatal(err)
			}
			<-got
			if g, ok := conn.(*gun); ok {
				g.cancel()
			} else {
				_ = conn.Close()
			}
			if err := <-got; err != io.EOF {
				t.Errorf("the end: %v", err)
			}
			<-ended
			eventually(t, "nothing is open", func() bool { return h.tunnels.count() == 0 })
		})
	}
}

// V2Ray takes the end of a WebSocket for a failure and drops what its application
// has not read: it has time to.
func TestAWebSocketIsNotClosedRightBehindTheLastByte(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr := destinationAt(t, func(d *net.TCPConn) {
		_, _ = io.WriteString(d, "all there is")
		_ = d.Close()
	})
	conn := openWS(t, w, w.session(t), c)
	defer conn.Close()
	if _, err := conn.Write(c.trojan(cmdTCP, at(addr))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("all there is"))); err != nil {
		t.Fatal(err)
	}
	last := time.Now()
	if n, err := io.Copy(io.Discard, conn); n != 0 || err != nil {
		t.Errorf("the end: %d, %v", n, err)
	}
	if took := time.Since(last); took < farewell/2 {
		t.Errorf("the end came after %v", took)
	}
}

// Everything a device has open ends when it is removed, whatever carries it.
func TestEveryWayIsCut(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	echo, udp := echoAt(t), ""
	udp, _ = udpEcho(t)
	var conns []io.ReadWriteCloser
	for _, open := range carriers {
		for _, first := range [][]byte{
			append(c.trojan(cmdTCP, at(echo)), 'x'),
			append(c.trojan(cmdMux, at(udp)), trojanPacket(at(udp), []byte("x"))...), // 3 is UDP here
			append(c.vless(cmdMux, clientproto.Destination{}), muxFrame(clientproto.Frame{Session: 1, Kind: clientproto.FrameNew, To: at(echo)}, []byte("x"))...),
		} {
			conn := open(t, w, s, c)
			if _, err := conn.Write(first); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
	}
	began := time.Now()
	w.know(t) // nobody
	for i, conn := range conns {
		if _, err := io.Copy(io.Discard, conn); err == nil {
			t.Errorf("connection %d ended in good order", i)
		}
	}
	h := w.egress.(*proxy)
	eventually(t, "nothing is open", func() bool { _, n := w.devices.count(); return n+h.tunnels.count()+h.flows.count() == 0 })
	if took := time.Since(began); took > cutTime {
		t.Errorf("cutting took %v", took)
	}
}

// E-15: a quiet tunnel costs a goroutine for each direction in the core, and in
// HTTP/2 one for the call and one for the other direction.
func TestQuietTunnelsAreCheap(t *testing.T) {
	const n = 50
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s, echo := w.session(t), echoAt(t)
	for _, o := range []open{openTCP, openWS} {
		conn := o(t, w, s, c)
		if _, err := conn.Write(append(c.trojan(cmdTCP, at(echo)), 'x')); err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		for range n {
			conn := o(t, w, s, c)
			if _, err := conn.Write(append(c.trojan(cmdTCP, at(echo)), 'x')); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		// The destination's, and one for each direction in the core. A client of
		// WebSocket has two more.
		eventually(t, "few goroutines", func() bool { return runtime.NumGoroutine()-before <= 5*n })
	}
}

// FuzzStranger: without the device's credentials nothing is recognised, and no
// byte is taken.
func FuzzStranger(f *testing.F) {
	c, other := newClient(), newClient()
	d, err := decodeDevice(c.Device)
	if err != nil {
		f.Fatal(err)
	}
	for _, pieces := range strangers(c, other) {
		f.Add([]byte(strings.Join(pieces, "")))
	}
	all := everyWay(f)
	all.offers[mesh.Offer{Protocol: mesh.ProtocolSOCKS, Transport: mesh.TransportTCP}] = false
	user, key := c.user(), []byte(c.secret.TrojanKey())
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, user) || bytes.Contains(b, key) {
			return
		}
		src := bytes.NewReader(b)
		br := bufio.NewReaderSize(src, firstBytes)
		for _, over := range []mesh.Transport{mesh.TransportTCP, mesh.TransportWS, mesh.TransportGRPC} {
			p, err := recognise(br, d, all, over)
			if p != "" || err != nil && len(b) > 0 {
				t.Fatalf("%q over %s: %q, %v", b, over, p, err)
			}
		}
		rest, err := io.ReadAll(&looked{halfConn: source{r: src}, first: br})
		if err != nil || !bytes.Equal(rest, b) {
			t.Errorf("%q became %q, %v", b, rest, err)
		}
	})
}

// source is a connection that can be read.
type source struct {
	halfConn
	r io.Reader
}

func (s source) Read(p []byte) (int, error) { return s.r.Read(p) }
