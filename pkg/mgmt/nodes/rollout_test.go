package nodes

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// runner is an entry that takes configurations as it is told to.
type runner struct {
	*fake
	line *line

	mu   sync.Mutex // guards what follows
	got  []*controlpb.Config
	runs *controlpb.Config
	bad  string // refuses configurations with this suffix
}

func (s *server) runner(name, bad string) *runner {
	r := &runner{fake: s.addEntry(name), bad: bad}
	r.line = r.greet()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range r.line.in {
			if c := m.GetConfig(); c != nil {
				r.take(c)
				continue
			}
			r.react(r.line, m, nil)
		}
	}()
	s.t.Cleanup(func() { r.line.hangUp(); <-done })
	eventually(s.t, name+" is configured", func() bool { return r.running() != nil && s.status(r.fake).ConfigRev > 0 })
	return r
}

func (r *runner) take(c *controlpb.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, c)
	if r.bad != "" && strings.Contains(strings.Join(c.GetSuffixes(), " "), r.bad) {
		r.line.ack(controlpb.Ack_KIND_CONFIG, c.GetRevision(), "cannot bind")
		return
	}
	r.runs = c
	r.line.ack(controlpb.Ack_KIND_CONFIG, c.GetRevision(), "")
}

func (r *runner) running() *controlpb.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs
}

// sent says whether a configuration with that suffix was ever sent.
func (r *runner) sent(suffix string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.got {
		if strings.Contains(strings.Join(c.GetSuffixes(), " "), suffix) {
			return true
		}
	}
	return false
}

func (n *network) addCell(name string) mesh.Cell {
	c := mesh.Cell{ID: mesh.NewCellID(), Name: name, Suffix: mesh.ServerName(name + ".example.net"), State: mesh.CellActive}
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.Cells, c.ID, c) })
	return c
}

func (n *network) rollout(group string) mesh.Rollout {
	r, err := n.store.Rollouts.Get(n.t.Context(), group)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		n.t.Fatal(err)
	}
	return r.Value
}

// H-06: a configuration that does not run reaches one node of many, which is
// back on what ran; the next one that runs reaches all.
func TestRollOut(t *testing.T) {
	t.Parallel()
	all := newServers(t, 2, quick())
	var nodes []*runner
	for i := range 4 {
		nodes = append(nodes, all[i%2].runner(fmt.Sprint("entry ", i), "bad"))
	}
	first := nodes[0].running()

	bad := all[0].addCell("bad")
	eventually(t, "the bad one is parked", func() bool { return all[0].rollout(mesh.EntriesGroup).Parked.Revision != 0 })
	parked := all[1].rollout(mesh.EntriesGroup)
	if !strings.Contains(parked.Reason, "refused it: config: cannot bind") || groupRevision(first.GetRevision()) != parked.Running.Revision {
		t.Errorf("roll-out %+v", parked)
	}
	tried := 0
	for _, r := range nodes {
		if r.sent("bad") {
			tried++
			eventually(t, "the canary is back on what ran", func() bool {
				st := all[0].status(r.fake)
				return st.ConfigRev == first.GetRevision() && st.Failure == ""
			})
			if e := all[0].events(mesh.EventConfigRefused, r.id.Node()); len(e) != 1 || !strings.Contains(e[0].Cause, "is parked") {
				t.Errorf("events %+v", e)
			}
		}
	}
	never(t, "the bad one at others, or tried again", func() bool {
		n := 0
		for _, r := range nodes {
			if r.sent("bad") {
				n++
			}
		}
		return n != 1
	})
	if tried != 1 {
		t.Errorf("%d nodes were sent the bad one", tried)
	}

	all[1].change(func(tx *store.Tx) error {
		return store.Update(tx, all[1].store.Cells, bad.ID, func(c *mesh.Cell) error { c.Suffix = "good.example.net"; return nil })
	})
	for _, r := range nodes {
		eventually(t, "all run the good one", func() bool { return strings.Contains(fmt.Sprint(r.running().GetSuffixes()), "good") })
	}
	eventually(t, "nothing is parked", func() bool { return all[0].rollout(mesh.EntriesGroup).Parked.Revision == 0 })
	revs := map[int64]bool{}
	for _, r := range nodes {
		revs[r.running().GetRevision()] = true
	}
	if len(revs) != 1 {
		t.Errorf("revisions %v, want one on all servers", revs)
	}
}

// The leader dies while a canary tries a configuration; the next one goes on.
func TestRollOutOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Trial = term + 4*time.Second // the next leader still sees what the canary did
	all := newServers(t, 2, times)
	a := all[1].runner("a", "")
	silent := all[1].addEntry("silent") // never acknowledges
	l := silent.greet()
	first := until(l, (*controlpb.MgmtMessage).GetConfig)
	l.ack(controlpb.Ack_KIND_CONFIG, first.GetRevision(), "")
	eventually(t, "acknowledged", func() bool { return all[0].status(silent).ConfigRev == first.GetRevision() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range l.in {
			if m.GetConfig() == nil {
				silent.react(l, m, nil)
			}
		}
	}()
	t.Cleanup(func() { l.hangUp(); <-done })
	all[0].addCell("new")
	eventually(t, "on trial", func() bool { return all[1].rollout(mesh.EntriesGroup).Canary != "" || a.sent("new") })
	all[0].kill()
	eventually(t, "the next leader has decided", func() bool {
		r := all[1].rollout(mesh.EntriesGroup)
		return r.Canary == "" && (r.Parked.Revision != 0) != a.sent("new")
	})
}

// A cell that is gone leaves no roll-out.
func TestRollOutOfARemovedCell(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	c := n.addCell("short")
	eventually(t, "it has a roll-out", func() bool { return n.rollout(string(c.ID)).Running.CellSuffix == "short.example.net" })
	n.change(func(tx *store.Tx) error { return store.Delete(tx, n.store.Cells, c.ID) })
	eventually(t, "it is gone", func() bool { return n.rollout(string(c.ID)).Group == "" })
}
