package notify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// manager is a service manager's end of the socket.
type manager struct{ conn *net.UnixConn }

func newManager(t *testing.T, watchdog string) (*manager, *Manager) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mn-") // a short name: sockets have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m, err := Open(environment("NOTIFY_SOCKET", path, "WATCHDOG_USEC", watchdog))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return &manager{conn}, m
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for pair := range slices.Chunk(pairs, 2) {
			if pair[0] == name {
				return pair[1]
			}
		}
		return ""
	}
}

// next is the next message within a time; "" when none comes.
func (m *manager) next(t *testing.T, within time.Duration) string {
	t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := m.conn.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func (m *manager) want(t *testing.T, want string) {
	t.Helper()
	if got := m.next(t, patience); got != want {
		t.Fatalf("the manager was told %q, want %q", got, want)
	}
}

// run starts r and returns what begins its stop, and what ends it.
func run(t *testing.T, r *Role) (stopping, end func()) {
	t.Helper()
	r.Log = slog.New(slog.DiscardHandler)
	if r.Serving == nil {
		r.Serving = func() bool { return true }
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); r.Run(ctx, stop) }()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return func() { close(stop) }, end
}

func TestRoleSaysReadyWhenItServesAndStoppingWhenItStops(t *testing.T) {
	told, m := newManager(t, "")
	var cause atomic.Pointer[error]
	cause.Store(new(errors.New("no configuration\nyet")))
	var serving atomic.Bool
	stopping, _ := run(t, &Role{Manager: m, Serving: serving.Load, Ready: func(context.Context) error { return *cause.Load() }, Alive: func() {}})

	told.want(t, "STATUS=no configuration yet")
	cause.Store(new(errors.New("draining")))
	told.want(t, "STATUS=draining")
	serving.Store(true) // it has started, and is not in use
	told.want(t, "READY=1\nSTATUS=draining")
	cause.Store(new(error))
	told.want(t, "STATUS=serving") // ready is said once
	stopping()
	told.want(t, "STOPPING=1\nSTATUS=stopping")
}

func TestSignsOfLifeComeWhileTheRoleLivesAlsoWhileItDrains(t *testing.T) {
	told, m := newManager(t, "1000000")
	hang := make(chan struct{})
	var hangs atomic.Bool
	stopping, _ := run(t, &Role{Manager: m, Ready: func(context.Context) error { return nil }, Alive: func() {
		if hangs.Load() {
			<-hang
		}
	}})
	defer close(hang)
	told.want(t, "READY=1\nSTATUS=serving")
	told.want(t, "WATCHDOG=1")
	told.want(t, "WATCHDOG=1")
	stopping()
	for told.next(t, patience) != "STOPPING=1\nSTATUS=stopping" { // a sign of life may come between
	}
	told.want(t, "WATCHDOG=1")
	hangs.Store(true)
	deadline := time.Now().Add(patience)
	for told.next(t, time.Second) != "" { // what was under way
		if time.Now().After(deadline) {
			t.Fatal("signs of life go on although the role hangs")
		}
	}
}

func TestWithoutAManagerNothingHappens(t *testing.T) {
	m, err := Open(environment())
	if m != nil || err != nil {
		t.Fatalf("Open: %v, %v", m, err)
	}
	_, end := run(t, &Role{Manager: m, Ready: func(context.Context) error { t.Error("asked"); return nil }, Alive: func() { t.Error("asked") }})
	end()
	if err := errors.Join(m.send("READY=1"), m.Close()); err != nil || m.Watchdog() != 0 {
		t.Errorf("a nil manager: %v, %v", err, m.Watchdog())
	}
}

func TestManagerThatIsGoneCostsOneWarning(t *testing.T) {
	told, m := newManager(t, "400000")
	var warnings strings.Builder
	r := &Role{Manager: m, Ready: func(context.Context) error { return nil }, Alive: func() {}, Log: slog.New(slog.NewTextHandler(&warnings, nil))}
	told.conn.Close()
	l := &loop{role: r}
	l.tell("READY=1")
	l.tell("WATCHDOG=1")
	if got := strings.Count(warnings.String(), "service manager not reached"); got != 1 {
		t.Errorf("%d warnings, want 1:\n%s", got, warnings.String())
	}
}

func TestEnvironmentIsReadAsDocumented(t *testing.T) {
	name := "@meshctl-notify-" + strconv.Itoa(os.Getpid()) // abstract
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, c := range []struct {
		what     string
		env      []string
		watchdog time.Duration
		invalid  bool
	}{
		{"no watchdog", []string{"NOTIFY_SOCKET", name}, 0, false},
		{"a watchdog", []string{"NOTIFY_SOCKET", name, "WATCHDOG_USEC", "30000000"}, 30 * time.Second, false},
		{"a watchdog of this process", []string{"NOTIFY_SOCKET", name, "WATCHDOG_USEC", "1", "WATCHDOG_PID", strconv.Itoa(os.Getpid())}, time.Microsecond, false},
		{"a watchdog of another process", []string{"NOTIFY_SOCKET", name, "WATCHDOG_USEC", "1", "WATCHDOG_PID", "1"}, 0, false},
		{"no number", []string{"NOTIFY_SOCKET", name, "WATCHDOG_USEC", "soon"}, 0, true},
		{"a number too large", []string{"NOTIFY_SOCKET", name, "WATCHDOG_USEC", "9223372036854775807"}, 0, true},
		{"a socket that is no path", []string{"NOTIFY_SOCKET", "vsock:2:1"}, 0, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			m, err := Open(environment(c.env...))
			if errors.Is(err, mesh.ErrInvalid) != c.invalid || m.Watchdog() != c.watchdog {
				t.Errorf("watchdog %v, %v", m.Watchdog(), err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
