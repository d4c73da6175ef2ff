package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Process is one child: a role with its folder, its log and its private
// listener for health.
type Process struct {
	Name   string // mgmt, mgmt-a, core-a, entry-b, …
	Dir    string
	Log    string
	Health string // host:port of /readyz
	// Config is what its configuration file holds. Changes count from the next
	// start on.
	Config map[string]any

	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the child was waited for
	err  error         // valid after done
}

// launcher starts children from one thread that lives as long as they do,
// because the kernel's parent-death signal (PR_SET_PDEATHSIG) fires when the
// thread that forked ends, not the process.
type launcher struct {
	starts chan func()
	ended  chan struct{}
}

func newLauncher() *launcher {
	l := &launcher{starts: make(chan func()), ended: make(chan struct{})}
	go l.run()
	return l
}

func (l *launcher) run() {
	defer close(l.ended)
	runtime.LockOSThread()
	for start := range l.starts {
		start()
	}
	runtime.UnlockOSThread()
}

// close ends the thread; call it after every child has ended.
func (l *launcher) close() {
	close(l.starts)
	<-l.ended
}

// spawn starts binary with args. The child has a process group of its own, so
// that a Ctrl-C in the terminal reaches this process alone, which then stops
// the children in order; it gets SIGTERM should this process die.
func (l *launcher) spawn(binary string, p *Process) error {
	logFile, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("dev: start %s: %w", p.Name, err)
	}
	defer logFile.Close()
	p.cmd = exec.Command(binary, append(slices.Clone(p.args), "--config", p.configFile())...)
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p.done = make(chan struct{})
	started := make(chan error, 1)
	l.starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("dev: start %s: %w", p.Name, err)
	}
	go p.wait()
	return nil
}

func (p *Process) configFile() string { return filepath.Join(p.Dir, "config.yaml") }

// configure writes the configuration file.
func (p *Process) configure() error {
	data, err := yaml.Marshal(p.Config)
	if err == nil {
		err = os.WriteFile(p.configFile(), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("dev: %s: %w", p.Name, err)
	}
	return nil
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited says whether the child has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Done is closed when the child has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is that of a child that has ended; -1 when a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends sig to the child. A child that has ended already is no error.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("dev: signal %s: %w", p.Name, err)
	}
	return nil
}

// Kill ends the child with SIGKILL and waits.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks with SIGTERM and, after patience, insists with SIGKILL, which is an
// error.
func (p *Process) Stop(patience time.Duration) error {
	obeyed, err := p.obeys(patience)
	if err == nil && !obeyed {
		err = fmt.Errorf("dev: stop %s: did not end within %v and was killed", p.Name, patience)
	}
	return err
}

func (p *Process) stop() error { return p.Stop(stopPatience) }

// end is stop for one of several servers, all of which stop.
func (p *Process) end() error {
	_, err := p.obeys(handOver)
	return err
}

// obeys stops the child and says whether SIGTERM was enough.
func (p *Process) obeys(patience time.Duration) (bool, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return false, err
	}
	select {
	case <-p.done:
		return true, nil
	case <-time.After(patience):
		return false, p.Kill()
	}
}

// Ready waits until the child's /readyz answers 200. It returns early when the
// child ends, with the last lines of its log.
func (p *Process) Ready(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if answers(ctx, "http://"+p.Health+"/readyz") {
			return nil
		}
		select {
		case <-p.done:
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("dev: %s is not ready: %w: %w\n%s", p.Name, context.Cause(ctx), mesh.ErrUnavailable, tail(p.Log, 12))
		case <-tick.C:
		}
	}
}

// ended says how a child that has ended did, with the end of its log.
func (p *Process) ended() error {
	return fmt.Errorf("dev: %s ended: %v\n%s", p.Name, p.err, tail(p.Log, 12))
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// tail returns the last n lines of a file, for an error text.
func tail(file string, n int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return "    | " + strings.Join(lines[max(0, len(lines)-n):], "\n    | ")
}

func newProcess(dir, name, health string) (*Process, error) {
	p := &Process{Name: name, Dir: filepath.Join(dir, name), Log: filepath.Join(dir, "logs", name+".log"), Health: health}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("dev: %s: %w", name, err)
	}
	return p, nil
}
