package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Exit codes as docs/exit-codes.md has them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitConfig      = 78
)

// patience bounds what should happen soon, on a machine that may be busy.
const patience = 90 * time.Second

// command is one run of the binary.
type command struct {
	args  []string
	env   []string // beside PATH and HOME
	stdin string
}

// outcome is how a run ended.
type outcome struct {
	command
	code           int
	stdout, stderr string
}

// meshctl runs the binary with args and waits for its end.
func meshctl(t *testing.T, args ...string) outcome {
	t.Helper()
	return command{args: args}.run(t)
}

func (c command) run(t *testing.T) outcome {
	t.Helper()
	return c.runWithin(t, patience)
}

func (c command) runWithin(t *testing.T, limit time.Duration) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := c.prepare(ctx, t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Stdin = strings.NewReader(c.stdin)
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || ctx.Err() != nil {
		t.Fatalf("%v: %v, %v\n%s%s", c.args, err, ctx.Err(), &out, &errs)
	}
	return outcome{c, cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// prepare makes the process: an environment of its own, and the end of this
// process ends it too.
func (c command) prepare(ctx context.Context, home string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, meshctlBinary, c.args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, c.env...)
	cmd.Dir = home
	return cmd
}

// want checks the exit code and that the texts are in the output.
func (o outcome) want(t *testing.T, code int, texts ...string) outcome {
	t.Helper()
	if o.code != code {
		t.Errorf("%v: exit code %d, want %d\n%s%s", o.args, o.code, code, o.stdout, o.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(o.stdout+o.stderr, text) {
			t.Errorf("%v: no %q in:\n%s%s", o.args, text, o.stdout, o.stderr)
		}
	}
	return o
}

var logLine = regexp.MustCompile(`(?m)^time=.*\n`)

// refused checks that the run ended with code and exactly one error line, with
// all of texts, and that a hint follows it.
func (o outcome) refused(t *testing.T, code int, texts ...string) outcome {
	t.Helper()
	o.want(t, code)
	lines := strings.Split(strings.TrimSpace(logLine.ReplaceAllString(o.stderr, "")), "\n")
	if len(lines) > 2 || !strings.HasPrefix(lines[0], "error: ") {
		t.Errorf("%v: want one error line and at most one hint:\n%s", o.args, o.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(strings.ToLower(lines[0]), strings.ToLower(text)) {
			t.Errorf("%v: the error line does not say %q:\n%s", o.args, text, o.stderr)
		}
	}
	return o
}

// hinted checks that the hint says text.
func (o outcome) hinted(t *testing.T, text string) outcome {
	t.Helper()
	_, hint, _ := strings.Cut(o.stderr, "hint: ")
	if !strings.Contains(hint, text) {
		t.Errorf("%v: the hint does not say %q:\n%s", o.args, text, o.stderr)
	}
	return o
}

// decode reads the run's JSON output into v.
func (o outcome) decode(t *testing.T, v any) {
	t.Helper()
	o.want(t, exitOK)
	if err := json.Unmarshal([]byte(o.stdout), v); err != nil {
		t.Fatalf("%v: %v\n%s", o.args, err, o.stdout)
	}
}

// background is a run that goes on while the test does.
type background struct {
	*exec.Cmd
	out  *lockedBuffer
	done chan struct{}
}

// start runs the binary until the test ends or ends it.
func (c command) start(t *testing.T) *background {
	t.Helper()
	b := &background{Cmd: c.prepare(context.WithoutCancel(t.Context()), t.TempDir()), out: new(lockedBuffer), done: make(chan struct{})}
	b.Stdout, b.Stderr = b.out, b.out
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = b.Wait() // how it ended is in ProcessState
		close(b.done)
	}()
	t.Cleanup(func() {
		b.signal(t, syscall.SIGKILL)
		<-b.done
	})
	return b
}

func (b *background) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := b.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// ended waits for the end and returns the exit code, -1 after a signal.
func (b *background) ended(t *testing.T) int {
	t.Helper()
	select {
	case <-b.done:
		return b.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("%v does not end:\n%s", b.Args, b.out)
		return 0
	}
}

func (b *background) over() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// eventually polls until try returns nil, and fails the test when it does not
// within limit.
func eventually(t *testing.T, limit time.Duration, what string, try func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > limit {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		<-tick.C
	}
}

// refusedSoftly is refused with a code on which a service manager tries again.
func (o outcome) refusedSoftly(t *testing.T, texts ...string) {
	t.Helper()
	code := exitFailure
	if o.code == exitUnavailable {
		code = exitUnavailable
	}
	o.refused(t, code, texts...)
}

// umask runs the command under another umask; it wants success.
func (c command) umask(t *testing.T, mask int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := c.prepare(ctx, t.TempDir())
	script := fmt.Sprintf("umask %03o && exec \"$0\" \"$@\"", mask)
	sh := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, cmd.Path}, c.args...)...)
	sh.Env, sh.Dir = cmd.Env, cmd.Dir
	if text, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.args, err, text)
	}
}
