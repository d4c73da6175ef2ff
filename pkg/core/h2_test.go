package core

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

// connectH2 opens a CONNECT tunnel in HTTP/2.
func connectH2(t *testing.T, tr http.RoundTripper, c client, addr string) (io.WriteCloser, *http.Response) {
	t.Helper()
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, "https://"+c.name(), in)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = addr
	req.Header.Set("Proxy-Authorization", basic(c.Id, c.secret.Reveal()))
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close(); _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT: %d", res.StatusCode)
	}
	return out, res
}

// Tunnels of HTTP/2 share a connection and nothing else: half of one is closed,
// one is reset, the others go on.
func TestTunnelsOfHTTP2(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	tr := w.h2(t, w.session(t), c)
	late := destinationAt(t, func(d *net.TCPConn) {
		defer d.Close()
		got, err := io.ReadAll(d) // its end too
		if err == nil {
			_, _ = d.Write(append(got, strings.Repeat("z", 1<<20)...))
		}
	})
	resets := destinationAt(t, func(d *net.TCPConn) {
		_, _ = d.Read(make([]byte, 1))
		_ = d.SetLinger(0)
		_ = d.Close()
	})
	stays, other := connectH2(t, tr, c, echoAt(t))
	out, res := connectH2(t, tr, c, late)
	if _, err := io.WriteString(out, "request"); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	if got, err := io.ReadAll(res.Body); err != nil || len(got) != 7+1<<20 || !bytes.HasPrefix(got, []byte("requestz")) {
		t.Errorf("half-closed: %d bytes, %v", len(got), err)
	}
	out, res = connectH2(t, tr, c, resets)
	if _, err := io.WriteString(out, "x"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("reset: ended in good order with %q", got)
	}
	if _, err := io.WriteString(stays, "still there"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 11)
	if _, err := io.ReadFull(other.Body, got); err != nil || string(got) != "still there" {
		t.Errorf("the other tunnel: %q, %v", got, err)
	}
	_, streams := w.devices.count()
	if streams != 1 {
		t.Errorf("%d streams", streams)
	}
}

// Some clients speak HTTP/2 though they and the core agreed on another protocol,
// or on none.
func TestHTTP2WithoutALPN(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s, echo := w.session(t), echoAt(t)
	for _, alpn := range [][]string{nil, {"h2", "http/1.1"}} {
		tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
			cfg := w.clientTLS(c.name())
			cfg.NextProtos = alpn
			return w.connectAs(t, s, c, cfg), nil
		}}
		tr.Protocols.SetUnencryptedHTTP2(true)
		conn := openCallAt(t, tr, "http://"+c.name()+"/"+grpcService+"/Tun")
		if _, err := conn.Write(append(c.trojan(cmdTCP, at(echo)), 'x')); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Errorf("%v: %v", alpn, err)
		}
		_ = conn.Close()
		tr.CloseIdleConnections()
	}
}

// A core that stops waits for what it began, and begins to end it.
func TestTheCoreStopsWhileARequestHangs(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Drain = 0; o.Config.Limits.Dial = time.Hour })
	c := newClient()
	w.know(t, c)
	hangs := make(chan struct{}, 2)
	w.dialer.resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) {
		hangs <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s := w.session(t)
	conn := openCall(t, w.h2(t, s, c), c, "/"+grpcService+"/Tun")
	if _, err := conn.Write(c.trojan(cmdTCP, clientproto.Destination{Name: "slow.example.com", Port: 80})); err != nil {
		t.Fatal(err)
	}
	raw := w.connect(t, s, c)
	if _, err := raw.Write(c.vless(cmdTCP, clientproto.Destination{Name: "slow.example.com", Port: 80})); err != nil {
		t.Fatal(err)
	}
	<-hangs
	<-hangs
	w.stop()
	select {
	case err := <-w.done:
		w.done <- err
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
}

// Plain HTTP in HTTP/2 names its origin as authority.
func TestPlainHTTPInHTTP2(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	site := newSite(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, "origin of "+r.URL.Path) }))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+c.name()+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = strings.TrimPrefix(site, "http://")
	req.Header.Set("Proxy-Authorization", basic(c.Id, c.secret.Reveal()))
	res, err := w.h2(t, w.session(t), c).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != "origin of /x" {
		t.Errorf("%d %q, %v", res.StatusCode, got, err)
	}
}

// Requests in absolute form have connections too, which count like all others.
func TestPlainRequestsAreBounded(t *testing.T) {
	const many = 5
	w := newWorld(t, func(o *Options) { o.Config.Limits.DeviceTunnels = many })
	c := newClient()
	w.know(t, c)
	asked, release := make(chan struct{}, many+1), make(chan struct{})
	origin := newSite(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release }))
	hc := w.browser(t, w.session(t), c, c.secret)
	get := func() int {
		res, err := hc.Get(origin)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			if got := get(); got != http.StatusOK {
				t.Errorf("status %d", got)
			}
		})
	}
	for range many {
		<-asked
	}
	if got := get(); got != http.StatusBadGateway {
		t.Errorf("one too many: status %d", got)
	}
	close(release)
	wg.Wait()
	eventually(t, "no connection is counted any more", func() bool { return w.egress.(*proxy).tunnels.count() == 0 })
}

// zeros is a body without end, all of whose messages are empty.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// What is kept of a call whose caller says nothing is bounded.
func TestACallThatSaysNothingForeverIsAnswered(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.HeaderTime = 10 * patience })
	c := newClient()
	w.know(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.name()+"/"+grpcService+"/Tun", zeros{})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	res, err := w.h2(t, w.session(t), c).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("status %d, %v", res.StatusCode, err)
	}
}

// Many calls share one connection; what it carries for one device is bounded.
func TestCallsShareAConnection(t *testing.T) {
	const many = 50
	w := newWorld(t, func(o *Options) { o.Config.Limits.DeviceTunnels = many })
	c := newClient()
	w.know(t, c)
	echo := echoAt(t)
	tr := w.h2(t, w.session(t), c)
	works := func(text string) bool {
		conn := openCall(t, tr, c, "/"+grpcService+"/Tun")
		if _, err := conn.Write(append(c.trojan(cmdTCP, at(echo)), text...)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		_, err := io.ReadFull(conn, got)
		return err == nil && string(got) == text
	}
	for i := range many {
		if !works(strings.Repeat("x", i+1)) {
			t.Fatalf("call %d", i)
		}
	}
	if works("one too many") {
		t.Error("there is no bound")
	}
	if _, n := w.devices.count(); n != 1 {
		t.Errorf("%d streams", n)
	}
}
