package chores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/acme/acmetest"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const patience = 90 * time.Second

// TestMain is also the child: the foreman starts this very program.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"mgmt", "aux"}) {
		conn, err := Inherited()
		if err == nil {
			err = work(context.Background(), conn, brisk())
		}
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(acmetest.Endless))
}

// brisk is the pace of backups in tests.
func brisk() pace {
	return pace{look: time.Minute, first: 50 * time.Millisecond, most: 400 * time.Millisecond}
}

// watch is somebody else's: it counts who asks for its URL.
type watch struct {
	*httptest.Server
	asked  atomic.Int32
	status atomic.Int32
}

func newWatch(t *testing.T) *watch {
	w := new(watch)
	w.status.Store(http.StatusOK)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		rw.WriteHeader(int(w.status.Load()))
	}))
	t.Cleanup(w.Close)
	return w
}

const secretPath = "/5ecret-path"

func (w *watch) url() mesh.Secret {
	return mesh.Secret(strings.Replace(w.URL, "http://", "http://user:pa55word@", 1) + secretPath + "?token=t0ken")
}

var secrets = []string{secretPath, "t0ken", "pa55word"}

// site is a foreman with what a server has around it.
type site struct {
	*Foreman
	logs   *buffer
	conns  chan net.Conn
	depose context.CancelFunc // takes the office away
	gone   chan struct{}      // closed when the foreman has given it back
	unwell atomic.Bool
}

type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Accept, Close and Addr make the site the listener of its gRPC server.
func (s *site) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (s *site) Close() error { return nil }
func (s *site) Addr() net.Addr {
	return &net.UnixAddr{Name: "chores", Net: "unix"}
}

func newSite(t *testing.T, url mesh.Secret, change ...func(*Foreman)) *site {
	t.Helper()
	return newSiteWith(t, url, func(grpc.ServiceRegistrar) {}, change...)
}

// newSiteWith serves the child something more.
func newSiteWith(t *testing.T, url mesh.Secret, register func(grpc.ServiceRegistrar), change ...func(*Foreman)) *site {
	t.Helper()
	s := &site{logs: new(buffer), conns: make(chan net.Conn), gone: make(chan struct{})}
	var office context.Context
	office, s.depose = context.WithCancel(t.Context())
	s.Foreman = &Foreman{
		Ping: Ping{URL: url, Interval: time.Second}, Memory: childMemory,
		Log:  slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Hand: func(c net.Conn) { s.conns <- c },
		Lead: func(ctx context.Context, work func(context.Context) error) error {
			defer close(s.gone)
			term, end := context.WithCancel(ctx)
			defer end()
			defer context.AfterFunc(office, end)()
			err := work(term)
			return err
		},
		Well: func(context.Context) error {
			if s.unwell.Load() {
				return errors.New("no quorum")
			}
			return nil
		},
	}
	for _, f := range change {
		f(s.Foreman)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(1 << 20)) // as that of a management server
	controlpb.RegisterChoresServer(server, s.Foreman)
	register(server)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(s) })
	ended := make(chan error, 1)
	wg.Go(func() { ended <- s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(s.conns)
		server.Stop()
		wg.Wait()
		if t.Failed() {
			t.Log(s.logs)
		}
		s.discreet(t)
	})
	return s
}

// discreet checks that nothing of the URL is in log or status.
func (s *site) discreet(t *testing.T) {
	t.Helper()
	text := s.logs.String() + fmt.Sprintf("%+v", s.Status()) + strings.Join(s.Status().Problems(), "\n")
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in log or status:\n%s", secret, text)
		}
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func TestTheChildOfTheLeaderPings(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	s := newSite(t, w.url())
	until(t, "two pings", func() bool { return w.asked.Load() >= 2 })
	until(t, "reported", func() bool { return !s.Status().Ping.LastSuccess.IsZero() })
	s.unseen(t)

	w.status.Store(http.StatusServiceUnavailable)
	until(t, "that failure", func() bool { return strings.Contains(strings.Join(s.Status().Problems(), "\n"), "503") })
	reg := prometheus.NewRegistry()
	for _, c := range s.Collectors() {
		reg.MustRegister(c)
	}
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
	if p := s.Status().Problems(); len(p) != 1 || !strings.Contains(p[0], "503") {
		t.Errorf("problems: %q", p)
	}
	w.status.Store(http.StatusNoContent)
	until(t, "success again", func() bool { return s.Status().Ping.Failures == 0 })

	seen := w.asked.Load()
	until(t, "a ping, so that the next one is not on its way yet", func() bool { return w.asked.Load() > seen })
	s.depose()
	<-s.gone // the child has ended its job when the office is given back
	before := w.asked.Load()
	lastly := s.Status()
	if lastly.Leads || lastly.PID == 0 {
		t.Errorf("after the office: %+v", lastly)
	}
	tick := time.NewTimer(1500 * time.Millisecond)
	<-tick.C
	if after := w.asked.Load(); after != before {
		t.Errorf("%d pings after the office was given back", after-before)
	}
}

// unseen checks that nobody on the machine can read the URL off the child.
func (s *site) unseen(t *testing.T) {
	t.Helper()
	for _, file := range []string{"cmdline", "environ", "comm"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.Status().PID, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has %s", file, text)
			}
		}
		if file == "comm" && string(text) != "meshctl-aux\n" {
			t.Errorf("its name is %s", text)
		}
	}
}

// kill ends the child that runs, once there is one.
func (s *site) kill(t *testing.T) {
	t.Helper()
	pid := 0
	until(t, "a child", func() bool { pid = s.Status().PID; return pid != 0 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestJobsAreHeldBackWhileTheMeshIsNotWell(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	s := newSite(t, w.url())
	until(t, "a ping", func() bool { return w.asked.Load() >= 1 })
	s.unwell.Store(true)
	until(t, "held back", func() bool { return s.Status().Held == "no quorum" })
	until(t, "obeyed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.desk.followed()
	})
	before := w.asked.Load()
	s.unwell.Store(false)
	until(t, "resumed", func() bool { return w.asked.Load() > before && s.Status().Held == "" })
}

func TestAnotherChildTakesOverTheOrders(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	s := newSite(t, w.url())
	for n := range 2 {
		before := w.asked.Load()
		until(t, "a ping", func() bool { return w.asked.Load() > before })
		s.kill(t)
		until(t, "started again", func() bool { return s.Status().Restarts > n })
	}
	before := w.asked.Load()
	until(t, "a ping", func() bool { return w.asked.Load() > before })
	if end := s.Status().LastEnd; end != "child: signal: killed" {
		t.Errorf("it ended: %s", end)
	}
}

func TestAChildThatIsSilentOrDisobeysIsOverdue(t *testing.T) {
	begin := time.Now()
	pinging := jobs{ping: new(controlpb.PingOrder)}
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name string
		do   func(d *desk)
		at   int
		want string
	}{
		{"it may take its time to start", func(*desk) {}, 29, ""},
		{"but not for ever", func(*desk) {}, 31, "it said nothing within 30s of its start"},
		{"it lives", func(d *desk) { d.heard(0, at(5)) }, 14, ""},
		{"it is silent", func(d *desk) { d.heard(0, at(5)) }, 16, "it was silent for 10s"},
		{"it may take its time to obey", func(d *desk) { d.order(pinging, at(6)); d.heard(0, at(6)) }, 10, ""},
		{"it disobeys", func(d *desk) { d.order(pinging, at(6)); d.heard(0, at(6)) }, 12, "it did not do as it was told"},
		{"it obeys", func(d *desk) { d.order(pinging, at(6)); d.heard(1, at(7)) }, 14, ""},
		{"it keeps a job", func(d *desk) {
			d.order(pinging, at(1))
			d.heard(1, at(2))
			d.order(jobs{}, at(3))
			d.heard(1, at(8))
		}, 9, "it did not do as it was told"},
		{"it learns of old orders when it starts", func(d *desk) {
			d.order(pinging, at(-60))
			d.heard(0, at(9))
		}, 13, ""},
		{"the same order is no news", func(d *desk) {
			d.order(pinging, at(1))
			d.order(pinging, at(2))
			d.heard(1, at(3))
		}, 12, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d desk
			d.begin(begin)
			c.do(&d)
			got := ""
			if err := d.overdue(at(c.at)); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestWithoutAJobThereIsNoChild(t *testing.T) {
	f := &Foreman{Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Run(ctx); err != nil || f.Status().PID != 0 || f.Status().Restarts != 0 || len(f.Collectors()) != 0 {
		t.Errorf("%v, %+v", err, f.Status())
	}
}

func TestTheChildLeavesWhenTheServerIsGone(t *testing.T) {
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Work(t.Context(), theirs) }()
	ours.Close()
	if err := <-ended; err == nil {
		t.Error("it ended as if all were well")
	}
}
