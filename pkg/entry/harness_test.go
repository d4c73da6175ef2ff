package entry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/entry/entrytest"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	suffix = mesh.ServerName("a.example.net")
	name   = mesh.ServerName("abcdefgh.a.example.net")
)

// routes is a Router of a map.
type routes struct {
	mu      sync.Mutex // guards the rest
	routes  map[mesh.ServerName]mesh.Route
	targets map[string]mesh.Target
	silent  bool
	asked   int
}

func newRoutes() *routes {
	return &routes{routes: map[mesh.ServerName]mesh.Route{}, targets: map[string]mesh.Target{}}
}

func (r *routes) Lookup(_ context.Context, n mesh.ServerName) (mesh.Route, []mesh.Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	route, ok := r.routes[n]
	switch {
	case !ok && r.silent:
		return mesh.Route{}, nil, fmt.Errorf("test: %w", mesh.ErrUnavailable)
	case !ok:
		return mesh.Route{}, nil, fmt.Errorf("test: %w", mesh.ErrNotFound)
	}
	var ts []mesh.Target
	for _, h := range route.Hops {
		if t, ok := r.targets[h.ID]; ok {
			ts = append(ts, t)
		}
	}
	return route, ts, nil
}

func (r *routes) put(route mesh.Route, targets ...mesh.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range targets {
		r.targets[t.ID] = t
		route.Hops = append(route.Hops, mesh.Hop{Kind: t.Kind, ID: t.ID})
	}
	r.routes[route.Name] = route
}

func (r *routes) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func TestTheFakeRouterKeepsTheContract(t *testing.T) {
	entrytest.Router(t, func(*testing.T) entrytest.World {
		r := newRoutes()
		locked := func(f func()) { r.mu.Lock(); defer r.mu.Unlock(); f() }
		return entrytest.World{
			Router:       r,
			PutRoute:     func(x mesh.Route) { locked(func() { r.routes[x.Name] = x }) },
			DeleteRoute:  func(n mesh.ServerName) { locked(func() { delete(r.routes, n) }) },
			PutTarget:    func(x mesh.Target) { locked(func() { r.targets[x.ID] = x }) },
			DeleteTarget: func(id string) { locked(func() { delete(r.targets, id) }) },
			Silence:      func() { locked(func() { r.silent = true }) },
		}
	})
}

// core is a core as far as an entry can see: a relay listener. What it does
// with a stream is serve's matter; nil echoes.
type core struct {
	target mesh.Target
	revs   *identity.Revocations
	kill   func()

	mu      sync.Mutex // guards headers
	headers []relay.Header
}

func startCore(t testing.TB, ca *identitytest.Mesh, serve func(*relay.Incoming)) *core {
	return startCoreAs(t, ca, ca.Identity(mesh.RoleCore), serve)
}

func startCoreAs(t testing.TB, ca *identitytest.Mesh, id mesh.Identity, serve func(*relay.Incoming)) *core {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if serve == nil {
		serve = echo
	}
	addr := netip.MustParseAddrPort(ln.Addr().String())
	c := &core{
		revs:   ca.Revocations(t),
		target: mesh.TargetOf(ca.ID, mesh.Core{ID: mesh.CoreID(id.ID), State: mesh.CoreReady, Addresses: []netip.AddrPort{addr}}, relay.ALPN),
	}
	cfg := ca.NodeAs(t, id).ServerTLS(identity.Policy{Revocations: c.revs, Accept: identity.RelayPort().Accept}, relay.ALPN)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.kill = sync.OnceFunc(func() {
		cancel()
		ln.Close()
		wg.Wait()
	})
	t.Cleanup(c.kill)
	wg.Go(func() {
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.session(ctx, tls.Server(raw, cfg), serve) })
		}
	})
	return c
}

func (c *core) session(ctx context.Context, conn *tls.Conn, serve func(*relay.Incoming)) {
	stop := context.AfterFunc(ctx, func() { relay.Abort(conn, relay.CodeUnspecified) })
	defer stop()
	if err := conn.HandshakeContext(ctx); err != nil {
		relay.Abort(conn, relay.CodeUnspecified)
		return
	}
	s := relay.Server(conn, relay.Config{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) }) // how it ended is not this test's matter
	for {
		in, err := s.Accept(ctx)
		if err != nil {
			break
		}
		c.mu.Lock()
		c.headers = append(c.headers, in.Header())
		c.mu.Unlock()
		wg.Go(func() { serve(in) })
	}
	wg.Wait()
}

func (c *core) seen() []relay.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// echo sends back what comes and ends when its peer does.
func echo(in *relay.Incoming) {
	st, err := in.Accept()
	if err != nil {
		return
	}
	if _, err := io.Copy(st, st); err != nil {
		st.Reset(relay.CodePeerReset)
		return
	}
	_ = st.Close() // also sends FIN
}

func refuse(code relay.Code, retryable bool) func(*relay.Incoming) {
	return func(in *relay.Incoming) { _ = in.Refuse(code, retryable, "test") }
}

// gate is a running entry.
type gate struct {
	*entry.Server
	addr  string
	ca    *identitytest.Mesh
	route *routes
	reg   *prometheus.Registry
	log   *lines
	stop  func() error // ends Serve's context and waits
}

func startEntry(t testing.TB, change ...func(*entry.Server)) *gate {
	t.Helper()
	return startEntryOn(t, func(ln net.Listener) net.Listener { return ln }, change...)
}

// startEntryOn lets wrap change the listener.
func startEntryOn(t testing.TB, wrap func(net.Listener) net.Listener, change ...func(*entry.Server)) *gate {
	t.Helper()
	ca := identitytest.New(t)
	g := &gate{ca: ca, route: newRoutes(), reg: prometheus.NewRegistry(), log: new(lines)}
	g.Server = &entry.Server{
		Router:      g.route,
		Node:        ca.Node(t, mesh.RoleEntry),
		Revocations: ca.Revocations(t),
		Settings:    new(entry.Settings),
		DrainLimit:  100 * time.Millisecond,
		Metrics:     g.reg,
		Log:         logTo(g.log),
	}
	g.Settings.Apply([]mesh.ServerName{suffix}, time.Hour, false)
	for _, f := range change {
		f(g.Server)
	}
	ln, err := entry.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.serve(t, wrap(ln))
	return g
}

func (g *gate) serve(t testing.TB, ln net.Listener) {
	g.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, ln) }()
	eventually(t, "Serve to begin", func() bool { return len(g.log.with("entry started")) > 0 })
	g.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// ended is how many connections ended for a reason.
func (g *gate) ended(t testing.TB, reason entry.Reason) int {
	t.Helper()
	families, err := g.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "meshctl_entry_connections_ended_total" && m.Label[0].GetValue() == string(reason) {
				return int(m.Counter.GetValue())
			}
		}
	}
	return 0
}

func (g *gate) wantEnded(t testing.TB, reason entry.Reason, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d connections ended as %s", n, reason), func() bool { return g.ended(t, reason) >= n })
	if got := g.ended(t, reason); got != n {
		t.Errorf("%d connections ended as %s, want %d", got, reason, n)
	}
}

// lines keeps a log.
type lines struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func logTo(l *lines) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) with(part string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return out
}

func hello(n mesh.ServerName) []byte {
	return entrytest.Records(entrytest.Hello(string(n), 1500), 16384)
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func send(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatalf("write %d bytes: %v", len(b), err)
	}
}

// wantBack reads as many bytes as want has and compares.
func wantBack(t testing.TB, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %d of %d bytes (equal: %v): %v", n, len(want), bytes.Equal(got, want), err)
	}
}

// open makes a connection through to an echoing core.
func (g *gate) open(t testing.TB, n mesh.ServerName) *net.TCPConn {
	t.Helper()
	c := dial(t, g.addr)
	h := hello(n)
	send(t, c, h)
	wantBack(t, c, h)
	return c
}

// wantClosed waits for the end of a connection on which nothing must come.
func wantClosed(t testing.TB, c net.Conn) {
	t.Helper()
	b, err := io.ReadAll(c)
	if len(b) > 0 {
		t.Errorf("%d bytes came", len(b))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection was not closed")
	}
}

// wantTurnedAway connects and is reset at once, perhaps before Dial returns.
func wantTurnedAway(t testing.TB, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, c)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}

// usage counts goroutines and descriptors of this process.
func usage(t testing.TB) (goroutines, files int) {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumGoroutine(), len(d)
}

func wantUsage(t testing.TB, goroutines, files, slack int) {
	t.Helper()
	eventually(t, "goroutines and descriptors back to where they were", func() bool {
		g, f := usage(t)
		return g <= goroutines+slack && f <= files+slack
	})
}
