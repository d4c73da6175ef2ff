package entry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/entry/entrytest"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	suffix = mesh.ServerName("a.example.net")
	name   = mesh.ServerName("abcdefgh.a.example.net")
)

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
	deadline := time.After(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
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
