package entry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestADrainLetsConnectionsFinish(t *testing.T) {
	g, _ := withCore(t, func(s *entry.Server) { s.DrainLimit, s.DrainWait = time.Minute, 4*time.Second })
	conn := g.open(t, name)
	stopped := make(chan error, 1)
	go func() { stopped <- g.stop() }()
	eventually(t, "readiness to go down", func() bool { return g.Ready(t.Context()) != nil })
	g.open(t, name).Close() // a balancer that has not noticed yet
	eventually(t, "the end of accepting", func() bool {
		c, err := net.Dial("tcp", g.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	send(t, conn, []byte("still here"))
	wantBack(t, conn, []byte("still here"))
	select {
	case err := <-stopped:
		t.Fatalf("Serve returned %v with a connection open", err)
	default:
	}
	conn.Close()
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if len(g.log.with("cut=0")) != 1 {
		t.Errorf("log: %q", g.log.with("drained"))
	}
}

func TestADrainCutsWhatIsLeftAtItsLimit(t *testing.T) {
	g, _ := withCore(t, func(s *entry.Server) { s.DrainLimit = 50 * time.Millisecond })
	conns := []*net.TCPConn{g.open(t, name), g.open(t, name)}
	silent := dial(t, g.addr)
	eventually(t, "three connections", func() bool { return g.Report().GetStreams() == 3 })
	if err := g.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	for _, c := range append(conns, silent) {
		if _, err := io.ReadAll(c); err == nil {
			t.Error("a cut connection ended cleanly")
		}
	}
	if len(g.log.with("cut=3")) != 1 {
		t.Errorf("log: %q", g.log.with("drained"))
	}
}

// failing is a listener whose Accept fails as the kernel's does.
type failing struct {
	net.Listener

	mu    sync.Mutex // guards the rest
	err   error
	calls int
}

func (f *failing) Accept() (net.Conn, error) {
	f.mu.Lock()
	err := f.err
	f.calls++
	f.mu.Unlock()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return f.Listener.Accept()
}

func (f *failing) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.calls = err, 0
}

func (f *failing) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// E-12: no descriptors left. Accept is tried again, ever more slowly, says so at
// most once a second, and connections that are open do not notice.
func TestAcceptSurvivesScarcity(t *testing.T) {
	f := new(failing)
	g := startEntryOn(t, func(ln net.Listener) net.Listener { f.Listener = ln; return f })
	g.lead(startCore(t, g.ca, nil))
	start := time.Now()
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ECONNABORTED} {
		conn := g.open(t, name)
		began := time.Now()
		f.set(errno)
		g.open(t, name) // wakes the Accept that waits; the next ones fail
		eventually(t, "five failures", func() bool { return f.count() >= 5 })
		if errno != syscall.ECONNABORTED && time.Since(began) < 50*time.Millisecond {
			t.Errorf("%v: five failures in %v", errno, time.Since(began))
		}
		send(t, conn, []byte("still here"))
		wantBack(t, conn, []byte("still here"))
		f.set(nil)
		began = time.Now()
		g.open(t, name)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%v: accepting again after %v", errno, took)
		}
	}
	if n, most := len(g.log.with("accept failed")), int(time.Since(start)/time.Second)+1; n == 0 || n > most {
		t.Errorf("%d log lines, want 1 to %d", n, most)
	}
}

// E-16 through the whole entry: the limit per source sees the client, not the
// balancer, and a balancer's own checks are not a client's.
func TestBalancersSpeakForTheirClients(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	g, _ := withCore(t, func(s *entry.Server) {
		s.Proxies = entry.Proxies{Trusted: loopback, Required: true}
		s.Limits.PerSource = 1
		s.HelloTimeout = 3 * time.Second
	})
	open := func(header string) *net.TCPConn {
		c := dial(t, g.addr)
		send(t, c, append([]byte(header), hello(name)...))
		return c
	}
	for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		wantBack(t, open("PROXY TCP4 "+client+" 192.0.2.9 1 2\r\n"), hello(name))
	}
	wantClosed(t, open("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n"))
	g.wantEnded(t, entry.LimitSource, 1)
	for range 2 {
		wantBack(t, open("PROXY UNKNOWN\r\n"), hello(name))
	}
	wantClosed(t, open(""))
	g.wantEnded(t, entry.BadProxy, 1)
	wantClosed(t, open("PROXY "+strings.Repeat("x", 200)))
	g.wantEnded(t, entry.BadProxy, 2)
	half := dial(t, g.addr)
	send(t, half, []byte("PROXY TCP4 192"))
	wantClosed(t, half)
	g.wantEnded(t, entry.HelloTimeout, 1)
	check := dial(t, g.addr)
	check.Close()
	g.wantEnded(t, entry.ClientGone, 1)
}

func TestManagementsConfigurationIsAppliedWholeOrNotAtAll(t *testing.T) {
	g, _ := withCore(t)
	ctx := t.Context()
	err := g.ApplyConfig(ctx, &controlpb.Config{Suffixes: []string{"b.example.net", "not a name"}})
	if !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("a bad suffix: %v, want ErrInvalid", err)
	}
	if err := g.ApplyConfig(ctx, &controlpb.Config{Suffixes: []string{"b.example.net"}, StaleIfErrorNanos: -1}); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("a negative age: %v, want ErrInvalid", err)
	}
	g.open(t, name) // what ran goes on
	if got := g.Settings.StaleFor(); got != time.Hour {
		t.Errorf("StaleFor is %v", got)
	}
	if err := g.ApplyConfig(ctx, &controlpb.Config{Suffixes: []string{"b.example.net"}, StaleIfErrorNanos: 7}); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, g.addr)
	send(t, conn, hello(name))
	wantClosed(t, conn)
	g.wantEnded(t, entry.UnknownSuffix, 1)
	if got := g.Settings.StaleFor(); got != 7 {
		t.Errorf("StaleFor is %v, want 7ns", got)
	}
}

func TestManagementMayOrderADrain(t *testing.T) {
	g, _ := withCore(t)
	order := &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Drain{Drain: &controlpb.Drain{Reason: "test"}}}
	if err := g.Handle(context.Background(), order, nil); err != nil {
		t.Fatal(err)
	}
	if err := g.Ready(t.Context()); err == nil || !g.Serving() || g.Report().GetState() != "draining" {
		t.Errorf("Ready: %v, serving: %v, report: %v", err, g.Serving(), g.Report())
	}
	g.open(t, name) // who still comes is served
	if err := g.ApplyConfig(t.Context(), &controlpb.Config{Suffixes: []string{string(suffix)}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Ready(t.Context()); err != nil {
		t.Errorf("after a configuration without drain: %v", err)
	}
}

func TestReportsThatDidNotArriveAreSentAgain(t *testing.T) {
	g, c := withCore(t)
	g.open(t, name)
	r := g.Report()
	g.Unsent(r)
	again := g.Report()
	if d := again.GetDials(); len(d) != 1 || d[0].GetCore() != c.target.ID || d[0].GetSucceeded() != 1 {
		t.Errorf("dials %v", d)
	}
}

func TestCheckFiles(t *testing.T) {
	if err := entry.CheckFiles(1); err != nil {
		t.Errorf("one connection: %v", err)
	}
	err := entry.CheckFiles(1 << 40)
	if !errors.Is(err, mesh.ErrInvalid) || mesh.Hint(err) == "" {
		t.Errorf("2^40 connections: %v, hint %q", err, mesh.Hint(err))
	}
}

func BenchmarkConnect(b *testing.B) {
	g, _ := withCore(b)
	g.open(b, name).Close()
	h := hello(name)
	got := make([]byte, len(h))
	for b.Loop() {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Write(h); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, got); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
