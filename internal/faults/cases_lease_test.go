//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Promises about who is there.
const (
	lostLimit     = 65 * time.Second // until a core that is dead is marked
	halfOpenLimit = 45 * time.Second // until both ends of a dead connection know
	droppedLimit  = 15 * time.Second // until a server that says nothing is asked no more
)

// D-03. While the leader is frozen, and when it wakes, no live core is taken for
// lost; a dead one is, in time.
func TestLeaderFrozenWithLiveCores(t *testing.T) {
	l := theLab(t)
	begin := time.Now()
	dead, live := l.Cores[0], l.Cores[1:]
	leader := l.Leader(t)
	leader.Freeze(t)
	dead.Kill(t)
	thaw := time.After(15 * time.Second)
	var woken time.Duration
	marked := l.WaitFor(t, lostLimit+patience, "the dead core is marked lost", func() error {
		select {
		case <-thaw:
			leader.Thaw(t)
			woken = time.Since(begin)
		default:
		}
		for _, h := range live {
			if c, err := call(t.Context(), l, admin.CoreGet, admin.Ref{Ref: h.Name}); err == nil && c.State != mesh.CoreReady {
				t.Errorf("%s, which is alive, is %s: %s", h.Name, c.State, c.Reason)
			}
		}
		c, err := call(t.Context(), l, admin.CoreGet, admin.Ref{Ref: dead.Name})
		if err == nil && c.State != mesh.CoreLost {
			err = fmt.Errorf("it is %s", c.State)
		}
		return err
	})
	if marked > lostLimit+slack*electionLimit {
		t.Errorf("marked after %v; promised are %v", marked, lostLimit)
	}
	id := string(must(t, l, admin.CoreGet, admin.Ref{Ref: dead.Name}).ID)
	for _, e := range must(t, l, admin.EventList, admin.EventListRequest{Page: admin.Page{Limit: 100}, Type: mesh.EventCoreLost, Since: begin}).Items {
		if !strings.HasSuffix(e.Object, id) {
			t.Errorf("an event says that a core is lost that lives: %+v", e)
		}
	}
	t.Logf("the leader was woken after %v", woken)
	l.Note("the leader is frozen for 15 s while a core dies and two live", "the dead one is marked lost after %s, the live ones stay ready", seconds(marked))
}

// D-05. A server that is frozen first and unreachable then costs nobody anything,
// and is soon asked no more.
func TestServerFrozenThenUnreachable(t *testing.T) {
	l := theLab(t)
	h := l.Follower(t)
	tr := l.Start(t, Traffic{})
	tr.Go(time.Second)
	tr.Fault()
	h.Freeze(t)
	tr.Go(10 * time.Second)
	l.Cut(t, h)
	tr.Go(10 * time.Second)
	during := tr.Stop(t)
	nothingNoticed(t, during)
	within(t, "the slowest new connection", during.SlowestNew, lookupLimit)
	after := l.Start(t, Traffic{})
	after.Go(5 * time.Second)
	m := after.Stop(t)
	nothingNoticed(t, m)
	if m.SlowestNew > lookupLimit {
		t.Errorf("%v after it was frozen a new connection took %v", 2*droppedLimit, m.SlowestNew)
	}
	during.Stall = max(during.Stall, m.Stall)
	l.Record(t, "mgmt follower frozen, then black-holed", during, m.SlowestNew, "for the slowest new connection 20 s later")
}

// H-03. The network drops every packet between a core and its server: both know
// in time, and the core is at another server, never taken for lost.
func TestPhoneHomeBlackHoled(t *testing.T) {
	l := theLab(t)
	core := l.Cores[2]
	view := must(t, l, admin.CoreGet, admin.Ref{Ref: core.Name})
	was := view.Status.Server
	h := l.serverByID(t, was)
	from := h.logged(t)
	tr := l.Start(t, Traffic{})
	tr.Go(time.Second)
	tr.Fault()
	l.CutBetween(t, []*Host{core}, []*Host{h})
	begin := time.Now()
	var server, node time.Duration
	l.WaitFor(t, 2*halfOpenLimit, "both ends know", func() error {
		if server == 0 && h.said(t, from, "node disconnected", string(view.ID)) {
			server = time.Since(begin)
		}
		c, err := call(t.Context(), l, admin.CoreGet, admin.Ref{Ref: core.Name})
		switch {
		case err != nil:
			return err
		case c.State != mesh.CoreReady:
			t.Errorf("the core is %s: %s", c.State, c.Reason)
		case node == 0 && c.Status.Connected && c.Status.Server != was:
			node = time.Since(begin)
		}
		if server == 0 || node == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	for what, took := range map[string]time.Duration{"the server": server, "the core": node} {
		if took > halfOpenLimit {
			t.Errorf("%s knew after %v; promised are %v", what, took, halfOpenLimit)
		}
	}
	m := tr.Stop(t)
	nothingNoticed(t, m)
	l.Record(t, "packets between a core and its server dropped", m, node, fmt.Sprintf("until it was at another server; the first knew after %s", seconds(server)))
}

func (l *Lab) serverByID(t *testing.T, id mesh.ServerID) *Host {
	t.Helper()
	for _, s := range must(t, l, admin.MgmtList, admin.Page{}).Items {
		if s.ID == id {
			return l.Host(s.Name)
		}
	}
	t.Fatalf("no server is %s", id)
	return nil
}

// said says whether the log has a line with all these words since then.
func (h *Host) said(t *testing.T, from int, words ...string) bool {
	t.Helper()
	for line := range strings.Lines(string(h.logSince(t, from))) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// F-04. A port that is busy ends a role with a code that says "again later", and
// when it is free the same start works; a fault of configuration ends it with
// another, after which nobody tries again.
func TestPortBusyThenFree(t *testing.T) {
	l := theLab(t)
	for _, x := range []struct {
		host *Host
		port int
	}{{l.Entries[1], 443}, {l.Cores[1], 8444}, {l.Follower(t), 8443}} {
		h := x.host
		h.Kill(t)
		ln, err := h.ns.Listen(h.At(x.port))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			h.Start(t)
			h.ended(t, 69)
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		h.Start(t)
		took := l.WaitFor(t, patience, h.Name+" is ready", func() error { return h.Ready(context.WithoutCancel(t.Context())) })
		t.Logf("%s is ready %v after its port is free", h.Name, took)
		h.Kill(t)
		h.Config["listen"] = "nonsense"
		h.Start(t)
		delete(h.Config, "listen")
		h.ended(t, 78)
		h.Start(t)
	}
	l.Note("a role's port is busy, then free", "exit code 69 while it is busy (to be restarted), served when it is free; 78 (not to be restarted) for a configuration that is wrong")
}

// ended waits for the end of the role with that code.
func (h *Host) ended(t *testing.T, code int) {
	t.Helper()
	select {
	case <-h.role.Done:
	case <-time.After(patience):
		t.Fatalf("%s runs\n%s", h.Name, h.role.Tail(10))
	}
	if got := h.role.ProcessState.ExitCode(); got != code {
		t.Errorf("%s ended with %d, want %d\n%s", h.Name, got, code, h.role.Tail(3))
	}
}
