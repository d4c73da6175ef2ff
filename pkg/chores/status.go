package chores

import (
	"fmt"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/internal/child"
)

// Status is how the child and its jobs go on this server.
type Status struct {
	child.State
	Hired bool   // there was or is work for a child
	Leads bool   // this server orders the jobs
	Held  string // why the jobs are held back, while it leads; "": they are not
	Ping  PingState
}

// Status returns how the child and its jobs go.
func (f *Foreman) Status() Status {
	state := f.state()
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{state, f.hired, f.leads, f.well, f.ping}
}

// Problems are what somebody should look at, in words.
func (s Status) Problems() []string {
	var out []string
	if s.PID == 0 && s.Restarts > 0 {
		out = append(out, "child process: it ended and will be started again: "+s.LastEnd)
	}
	if s.Held != "" {
		out = append(out, "jobs of the child process: held back: "+s.Held)
	}
	if s.Ping.Failures > 0 {
		out = append(out, fmt.Sprintf("dead-man ping: failed %s in a row: %s", times(s.Ping.Failures), s.Ping.Reason))
	}
	return out
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// PingState is how the dead-man ping goes, as far as this server had it done.
type PingState struct {
	LastSuccess, LastFailure time.Time
	Failures                 int    // since the last success
	Reason                   string // of the last failure; nothing of the URL is in it
}
