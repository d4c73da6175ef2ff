package child

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTime is how long to read on what a child that has ended left behind.
	drainTime = time.Second
	// oomScore makes the kernel, when it is out of memory, choose the child
	// before its parent.
	oomScore = "500"
)

// running is one run of the child.
type running struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	err  error         // how it ended; valid after done
}

// start starts the child and confines it before anything is said to it.
func (p *Process) start(out *lines) (*running, net.Conn, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	cmd := &exec.Cmd{
		Path: p.Path, Args: p.Args, Env: p.Env, Dir: "/",
		Stdout: out, Stderr: out, ExtraFiles: []*os.File{theirs}, WaitDelay: drainTime,
		// A group of its own: Ctrl-C on the terminal is for the parent alone.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be this process's
	}
	r, err := launch(cmd)
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("child: start: %w", err)
	}
	if err := confine(r.pid(), p.Memory); err != nil {
		r.kill()
		ours.Close()
		return nil, nil, err
	}
	return r, ours, nil
}

// launch starts cmd from a thread that lives as long as the child does: the
// kernel's parent-death signal comes when the thread that forked ends, not the
// process.
func launch(cmd *exec.Cmd) (*running, error) {
	r := &running{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(r.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			r.err = cmd.Wait()
		}
	}()
	return r, <-started
}

func (r *running) pid() int { return r.cmd.Process.Pid }

// kill ends the child at once and waits.
func (r *running) kill() {
	_ = r.cmd.Process.Kill() // it fails when the child has ended, which is waited for
	<-r.done
}

// stop asks the child to end, and kills it when it does not in time, which it
// returns as an error.
func (r *running) stop(grace time.Duration) error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.kill()
		return err
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-r.done:
		return nil
	case <-t.C:
		r.kill()
		return fmt.Errorf("it did not end within %v and was killed", grace)
	}
}

// confine limits what the child can take of the machine. prlimit is among the
// system calls of an ordinary service; setrlimit, in a hardened unit, is not.
func confine(pid int, memory int64) error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0} // its memory may hold secrets
	if memory > 0 {
		limits[unix.RLIMIT_DATA] = uint64(memory)
	}
	for which, n := range limits {
		if err := unix.Prlimit(pid, which, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return fmt.Errorf("child: limit: %w", err)
		}
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(oomScore), 0); err != nil {
		return fmt.Errorf("child: limit: %w", err)
	}
	return nil
}

// pair makes a socket without a name: only who is given an end has one.
func pair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("child: make socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "parent"), os.NewFile(uintptr(fds[1]), "child")
	defer ours.Close() // FileConn has a copy
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("child: make socket: %w", err)
	}
	return conn, theirs, nil
}

// Inherited is the child's end of the socket. It returns an error when this
// process was not started by a Process.
func Inherited() (net.Conn, error) {
	cred, err := unix.GetsockoptUcred(SocketFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("child: find socket: %w", err)
	}
	if int(cred.Pid) != os.Getppid() {
		return nil, errors.New("child: find socket: the descriptor is no socket of the parent's")
	}
	f := os.NewFile(SocketFD, "parent")
	defer f.Close() // FileConn has a copy
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("child: find socket: %w", err)
	}
	return conn, nil
}
