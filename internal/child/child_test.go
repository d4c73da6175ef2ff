package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

const patience = time.Minute

// TestMain is also the child: the test binary again, with what to do in its name.
func TestMain(m *testing.M) {
	if role, ok := strings.CutPrefix(os.Args[0], "child-"); ok {
		os.Exit(behave(role))
	}
	goleak.VerifyTestMain(m)
}

func behave(role string) int {
	conn, err := Inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	switch role {
	case "echo":
		_, _ = io.Copy(conn, conn)
	case "panic":
		panic("at the disco, with s3cret")
	case "hog":
		var all [][]byte
		for len(all) < 1<<20 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 { // each page
				b[i] = 1
			}
			all = append(all, b)
		}
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		_, _ = conn.Write([]byte("x"))
		_, _ = io.Copy(io.Discard, conn) // until it is killed
	case "chatter":
		for i := range 2000 {
			fmt.Println(i, strings.Repeat("chatter ", 1000))
		}
	case "parent": // of a child of its own, until it is killed
		p := &Process{Name: "grandchild", Path: "/proc/self/exe", Args: []string{"child-echo"}, Log: slog.New(slog.DiscardHandler)}
		p.Attend = func(ctx context.Context, _ net.Conn) error {
			fmt.Fprintln(conn, p.State().PID)
			<-ctx.Done()
			return nil
		}
		_ = p.Run(context.Background())
	}
	return 0
}

// watched is a Process under test.
type watched struct {
	*Process
	logs  *buffer
	conns chan net.Conn // of each start
	end   context.CancelFunc
	done  chan error
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

func run(t *testing.T, role string, change func(*Process)) *watched {
	t.Helper()
	w := &watched{logs: new(buffer), conns: make(chan net.Conn, 100), done: make(chan error, 1)}
	w.Process = &Process{
		Name: role, Path: "/proc/self/exe", Args: []string{"child-" + role}, Log: slog.New(slog.NewTextHandler(w.logs, nil)),
		Attend: func(ctx context.Context, c net.Conn) error {
			w.conns <- c
			<-ctx.Done()
			return nil
		},
	}
	if change != nil {
		change(w.Process)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.end = cancel
	go func() { w.done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if w.done != nil {
			<-w.done
		}
		if t.Failed() {
			t.Log(w.logs)
		}
	})
	return w
}

func (w *watched) stop(t *testing.T) error {
	t.Helper()
	w.end()
	err := <-w.done
	w.done = nil
	return err
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

func (w *watched) answers(t *testing.T) {
	t.Helper()
	conn := <-w.conns
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestTheChildHasWhatItIsGivenAndNothingElse(t *testing.T) {
	t.Setenv("PLANTED", "s3cret")
	open, err := os.Create(filepath.Join(t.TempDir(), "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	w := run(t, "echo", func(p *Process) { p.Env, p.Memory = []string{"GIVEN=1"}, 1<<30 })
	w.answers(t)
	pid := w.State().PID
	proc := func(file string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if got := proc("environ"); got != "GIVEN=1\x00" {
		t.Errorf("environment %q", got)
	}
	if got := proc("oom_score_adj"); got != oomScore {
		t.Errorf("oom_score_adj %s", got)
	}
	limits := strings.Join(strings.Fields(proc("limits")), " ")
	for _, want := range []string{"Max data size 1073741824 1073741824 bytes", "Max core file size 0 0 bytes"} {
		if !strings.Contains(limits, want) {
			t.Errorf("no %q in %s", want, limits)
		}
	}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) < 4 {
		t.Fatalf("%v, %v", fds, err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && !containsAny(target, "socket:", "pipe:", "/dev/null", "anon_inode:", "/sys/fs/cgroup/") {
			t.Errorf("it has %s", target)
		}
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	if s := w.State(); s.PID != 0 || s.Restarts != 0 || s.LastEnd != "" {
		t.Errorf("after a clean stop: %+v", s)
	}
	if w.logs.String() != "" {
		t.Errorf("a clean stop is logged: %s", w.logs)
	}
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// TestEndsAreToldAndTheChildComesBack ends children in every way.
func TestEndsAreToldAndTheChildComesBack(t *testing.T) {
	redact := func(s string) string { return strings.ReplaceAll(s, "s3cret", "[redacted]") }
	for _, c := range []struct {
		role, want string
		change     func(*Process)
		provoke    func(w *watched)
	}{
		{"panic", "exit status 2: panic: at the disco, with [redacted]", nil, nil},
		{"hog", outOfMemory, func(p *Process) { p.Memory = childMemory }, nil},
		{"echo", "signal: killed", nil, func(w *watched) { _ = syscall.Kill(w.State().PID, syscall.SIGKILL) }},
		{"echo", "not content", func(p *Process) {
			p.Attend = func(context.Context, net.Conn) error { return errors.New("not content") }
		}, nil},
		{"echo", "it ended by itself", nil, func(w *watched) { (<-w.conns).Close() }},
		{"echo", "no such file", func(p *Process) { p.Path = "/nowhere/at/all" }, nil},
	} {
		t.Run(c.role+": "+c.want, func(t *testing.T) {
			t.Parallel()
			w := run(t, c.role, func(p *Process) {
				p.Redact = redact
				if c.change != nil {
					c.change(p)
				}
			})
			if c.provoke != nil {
				until(t, "started", func() bool { return w.State().PID != 0 })
				c.provoke(w)
			}
			until(t, "started again", func() bool { return w.State().Restarts > 0 })
			if s := w.State(); !strings.Contains(s.LastEnd, c.want) || s.LastEnded.IsZero() {
				t.Errorf("%+v, want %q", s, c.want)
			}
			if strings.Contains(w.logs.String(), "s3cret") {
				t.Error("a secret is in the log")
			}
		})
	}
}

func TestAChildThatDoesNotEndIsKilled(t *testing.T) {
	w := run(t, "deaf", func(p *Process) { p.Grace = 50 * time.Millisecond })
	conn := <-w.conns
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // it ignores SIGTERM from now on
		t.Fatal(err)
	}
	pid := w.State().PID
	if err := w.stop(t); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("%v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it is there still: %v", err)
	}
}

func TestWhatAChildSaysIsBounded(t *testing.T) {
	w := run(t, "chatter", nil)
	until(t, "ended", func() bool { return w.State().LastEnd != "" })
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	logs := w.logs.String()
	if len(logs) > 2*lineBurst*maxShown || !strings.Contains(logs, "lines of child dropped") || !strings.Contains(logs, "line=\"0 chatter") {
		t.Errorf("%d bytes of log:\n%.2000s", len(logs), logs)
	}
}

func TestTheChildDoesNotOutliveItsParent(t *testing.T) {
	w := run(t, "parent", nil)
	line, err := bufio.NewReader(<-w.conns).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || syscall.Kill(grandchild, 0) != nil {
		t.Fatalf("grandchild %q: %v", line, err)
	}
	if err := syscall.Kill(w.State().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	until(t, "the grandchild is gone", func() bool { return gone(grandchild) })
	t.Logf("gone after %v", time.Since(begin))
}

// gone says whether a process has ended, waited for or not.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestInheritedIsForChildrenOnly(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{"child-echo"}
	out, err := cmd.CombinedOutput()
	if x, ok := errors.AsType[*exec.ExitError](err); !ok || x.ExitCode() != 3 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestBackOffDoublesToAMinuteAndIsJittered(t *testing.T) {
	var b backoff
	step, seen := firstDelay, map[time.Duration]bool{}
	for range 12 {
		d := b.next(time.Second)
		if d < step/2 || d > step || d > maxDelay {
			t.Errorf("delay %v at step %v", d, step)
		}
		seen[d] = true
		step = min(2*step, maxDelay)
	}
	if len(seen) < 10 {
		t.Errorf("only %d different delays", len(seen))
	}
	if d := b.next(steady); d > firstDelay {
		t.Errorf("after a long run: %v", d)
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		pause(ctx, time.Hour)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}
