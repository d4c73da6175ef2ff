package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Process is a program that was started and is waited for.
type Process struct {
	*exec.Cmd
	Done <-chan struct{} // closed when it was waited for

	name, log string
}

// Start starts a program in the namespace, with both outputs added to a log. It
// ends with the tests, whatever way they end.
func (n Namespace) Start(name, logFile string, cmd *exec.Cmd) (*Process, error) {
	done := make(chan struct{})
	p := &Process{Cmd: cmd, Done: done, name: name, log: logFile}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if err := n.Do(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
	return p, nil
}

// Running says whether the process is there; a nil one is not.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Kill ends it at once.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := p.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.Done
	return nil
}

// Tail returns the last n lines of the log; "" when it was never started.
func (p *Process) Tail(n int) string {
	if p == nil {
		return ""
	}
	data, err := os.ReadFile(p.log)
	if err != nil {
		return p.name + ": " + err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return p.name + ":\n    | " + strings.Join(lines[max(0, len(lines)-n):], "\n    | ")
}
