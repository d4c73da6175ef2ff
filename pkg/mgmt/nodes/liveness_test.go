package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// D-03, as far as one server can show it.
func TestLostAfterLimit(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lost = 1500 * time.Millisecond
	n := newNetwork(t, times, loopback...)
	f := n.addCore("c")
	f.relay(f.node)
	l := f.greet()
	f.live(l, nil)
	n.wantState(f, mesh.CoreReady)
	d := n.addDevice("phone")
	eventually(t, "served", func() bool { return len(n.via(d)) == 1 })

	began := time.Now()
	l.post(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Ping{Ping: &controlpb.Ping{Sequence: 1}}})
	eventually(t, "heard since then", func() bool { return n.svc.hub.get(f.id.Node()).silent(time.Now()) < time.Since(began) })
	l.hangUp()
	c := n.wantState(f, mesh.CoreLost)
	if took := time.Since(began); took < times.Lost {
		t.Errorf("lost after %v, the limit is %v", took, times.Lost)
	}
	if !strings.HasPrefix(c.Reason, "no phone-home since ") {
		t.Errorf("reason %q", c.Reason)
	}
	n.wantEvent(mesh.EventCoreLost, f.id.Node())
	// Assignment is not health: the route stays, its target tells.
	if via := n.via(d); len(via) != 1 {
		t.Errorf("via %v after the core was lost", via)
	}
	if target, err := n.store.Targets.Get(t.Context(), f.id.ID); err != nil || target.Value.State != mesh.CoreLost {
		t.Errorf("target %+v, %v", target.Value, err)
	}

	f.hello.Boot++
	f.live(f.greet(), nil)
	n.wantState(f, mesh.CoreReady)
}

// A server that starts has seen nobody yet: nobody is lost for that.
func TestRestartLosesNobody(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lost = 6 * time.Second // much more than the moment in which nobody may be lost
	n := newNetwork(t, times, loopback...)
	f := n.readyCore("c")
	n.stop()
	n.change(func(tx *store.Tx) error { // as if it had been down for an hour
		return store.Update(tx, n.store.Status, f.id.Node(), func(st *mesh.NodeStatus) error {
			st.LastSeen = st.LastSeen.Add(-time.Hour)
			return nil
		})
	})
	n.start(times)
	never(t, "lost right after a restart", func() bool { return n.core(f).State != mesh.CoreReady })
	n.wantState(f, mesh.CoreLost) // it does not come back, so in the end it is
}

// A server that dies says nothing; its next start mends what it left.
func TestStatusLeftByACrash(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.readyCore("c")
	eventually(t, "connected", func() bool { return n.status(f).Connected })
	n.stop()
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Status, f.id.Node(), func(st *mesh.NodeStatus) error { st.Connected = true; return nil })
	})
	n.start(quick())
	eventually(t, "not connected", func() bool { return !n.status(f).Connected })
}

func TestDrain(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.addCore("c")
	f.relay(f.node)
	l := f.greet()
	f.live(l, nil)
	n.wantState(f, mesh.CoreReady)
	eventually(t, "configured", func() bool { return n.status(f).ConfigRev > 0 })
	before := n.status(f).ConfigRev
	drain := func(on bool) {
		n.change(func(tx *store.Tx) error {
			return store.Update(tx, n.store.Cores, mesh.CoreID(f.id.ID), func(c *mesh.Core) error { c.Drain = on; return nil })
		})
	}
	drain(true)
	n.wantState(f, mesh.CoreDraining)
	eventually(t, "the core runs the new configuration", func() bool { return n.status(f).ConfigRev > before })
	drain(false)
	n.wantState(f, mesh.CoreReady)
	if got := len(n.events(mesh.EventCoreReady, f.id.Node())); got != 1 {
		t.Errorf("%d ready events, want 1", got)
	}
}

func TestAliveIsTold(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	l := f.greet()
	alive := func() bool {
		all, err := n.store.AliveNodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(all[f.id.Node()]) == n.server.Identity().ID
	}
	eventually(t, "alive", alive)
	l.hangUp()
	eventually(t, "not alive", func() bool { return !alive() })
}

func TestDecide(t *testing.T) {
	now := time.Now()
	gone := observation{Liveness: mesh.Liveness{LastSeen: now.Add(-time.Hour)}}
	lost := gone.decide(mesh.Core{State: mesh.CoreReady}, now, time.Minute)
	if lost.State != mesh.CoreLost || lost.Reason == "" {
		t.Fatalf("core %+v, want lost", lost)
	}
	gone.LastSeen = now.Add(-2 * time.Minute)
	if again := gone.decide(lost, now, time.Minute); again.Reason != lost.Reason {
		t.Errorf("reason of a lost core became %q", again.Reason)
	}
	if joined := gone.decide(mesh.Core{State: mesh.CoreJoined}, now, time.Minute); joined.State != mesh.CoreJoined {
		t.Errorf("a core that was never there is %s", joined.State)
	}
}

// While etcd is away streams stay and known nodes may come; what happened
// meanwhile is written afterwards.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	st, link := storetest.NewLinked(t)
	n := newNetworkOn(t, st, quick())
	stays, comes := n.addEntry("stays"), n.addEntry("comes")
	stays.live(stays.greet(), nil)
	eventually(t, "written", func() bool { return n.status(stays).Connected })
	eventually(t, "mirrored", func() bool { _, ok := n.svc.view.entries.Get(mesh.EntryID(comes.id.ID)); return ok })
	link.Cut()
	comes.live(comes.greet(), nil)
	if lines := n.svc.Connected(); len(lines) != 2 {
		t.Errorf("connected %+v, want both", lines)
	}
	link.Heal()
	eventually(t, "written later", func() bool { return n.status(comes).Connected })
}

// A node that changes itself all the time must not push everybody else's changes
// out of the audit records, which are kept by number.
func TestARestlessNodeFillsNoAudit(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	core, entry := n.addCore("c"), n.addEntry("e")
	for i := range 2 * paceBurst {
		for _, f := range []*fake{core, entry} {
			f.hello.Boot, f.hello.Version = int64(i), fmt.Sprint("v", i)
			l := f.greet()
			eventually(t, "the loop has seen it", func() bool {
				c := n.core(core)
				e, err := n.store.Entries.Get(t.Context(), mesh.EntryID(entry.id.ID))
				seen := c.Version
				if f == entry {
					seen = e.Value.Version
				}
				return err == nil && (seen == f.hello.Version || i >= paceBurst/2) // its turns also go for what is not dialled
			})
			l.hangUp()
		}
	}
	records, _, err := n.store.Audit.Page(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	by := 0
	for _, r := range records {
		if r.Value.Actor == actor && !strings.HasSuffix(r.Value.Action, ".upkeep") { // that the leader does by itself
			by++
		}
	}
	if by < paceBurst/2 || by > 2*paceBurst {
		t.Errorf("%d audit records of what two nodes did, at most %d may be", by, 2*paceBurst)
	}
}

func TestTeller(t *testing.T) {
	tell := teller{wake: newSignal()}
	now := time.Now()
	e := mesh.Event{Type: mesh.EventClockOff, Object: "core/a"}
	if !tell.add(e, now) || tell.add(e, now.Add(time.Second)) || !tell.add(e, now.Add(2*tellAgain)) {
		t.Error("an event is told once a minute")
	}
	for i := range 2 * maxUntold {
		tell.add(mesh.Event{Type: mesh.EventClockOff, Object: fmt.Sprint(i)}, now)
	}
	list := tell.take()
	if len(list) != maxUntold || len(tell.take()) != 0 {
		t.Errorf("%d events wait, at most %d may", len(list), maxUntold)
	}
	tell.putBack(list)
	if got := tell.take(); len(got) != maxUntold || got[0].Object != "core/a" {
		t.Errorf("%d events came back", len(got))
	}
}
