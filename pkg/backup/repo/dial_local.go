package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// dialLocal starts the git program on a repository on this machine. go-git has
// no server that takes Git's locks, and a folder may be shared with people who
// use git itself.
func (r *Repo) dialLocal(ctx context.Context, rm Remote, s service) (link, error) {
	path, err := rm.path()
	if err != nil {
		return nil, err
	}
	git := r.opts.Git
	if git == "" {
		if git, err = exec.LookPath("git"); err != nil {
			err := faultf(ReasonNoGit, "a remote that is a local path wants the git program: %w", mesh.ErrUnavailable)
			return nil, mesh.WithHint(err, "install it (Debian: apt install git), or use an ssh:// or https:// remote")
		}
	}
	// Hooks of the other repository would run as us; its housekeeping shall
	// not outlive us.
	cmd := exec.CommandContext(ctx, git, "-c", "core.hooksPath=/dev/null", "-c", "gc.autoDetach=false",
		"-c", "maintenance.autoDetach=false", string(s[len("git-"):]), path)
	cmd.Env = safeEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	l := &localLink{cmd: cmd}
	cmd.Stderr = &l.stderr
	if l.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("repo: %w", err)
	}
	if l.out, err = cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("repo: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, faultf(ReasonNoGit, "start git: %w: %w", err, mesh.ErrUnavailable)
	}
	return l, nil
}

// safeEnv is what the git program gets: no configuration but the repository's
// own, no prompt, nothing of ours.
func safeEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	}
}

type localLink struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr saidBuffer
	asked  bool
	once   sync.Once
	ended  error
}

func (l *localLink) advertised() io.Reader { return l.out }

// said waits for the end of the program, so that the complaint is whole.
func (l *localLink) said() string {
	_ = l.in.Close()
	_ = l.wait() // how it ended is in what it said
	return l.stderr.String()
}

func (l *localLink) wait() error {
	l.once.Do(func() { l.ended = l.cmd.Wait() })
	return l.ended
}

func (l *localLink) ask(_ context.Context, body io.Reader, _ int64) (io.Reader, error) {
	l.asked = true
	return askStream(l.in, l.out, body)
}

func (l *localLink) close() error {
	endStream(l.in, l.asked)
	_, _ = io.Copy(io.Discard, io.LimitReader(l.out, 1<<20)) // or it waits for a reader
	_ = l.out.Close()                                        // Wait closes it too
	return l.wait()
}

// askStream writes a question and closes the way there. A server that refuses
// early may not read all of it, and then its answer says more than the error.
func askStream(in io.WriteCloser, out io.Reader, body io.Reader) (io.Reader, error) {
	_, err := io.Copy(in, body)
	closed := in.Close()
	if err == nil && closed != nil && !errors.Is(closed, io.EOF) {
		err = closed
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.EOF) {
		return nil, faultf(ReasonConnection, "send: %w: %w", err, mesh.ErrUnavailable)
	}
	return out, nil
}

// endStream takes leave of a server that was asked nothing.
func endStream(in io.WriteCloser, asked bool) {
	if !asked {
		_, _ = in.Write(pktline.FlushPkt) // it may be gone already
	}
	_ = in.Close()
}

// saidBuffer keeps the first lines that a program complains with.
type saidBuffer struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

func (s *saidBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := 1<<10 - len(s.b); room > 0 {
		s.b = append(s.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (s *saidBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.b)
}
