package gateway_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/gateway"
)

// D-08: after a restore the revisions of the store are lower than those that an
// entry has seen. What it learns then counts, a watch goes on from there, and a
// server that still has the state from before is not believed.
func TestAfterARestoreWhatWasKnownGivesWay(t *testing.T) {
	t.Parallel()
	epochs := [2]atomic.Int64{}
	epochs[0].Store(1)
	epochs[1].Store(2)
	saying := func(i int) func(*gateway.Server) {
		return func(s *gateway.Server) { s.Epoch = epochs[i].Load }
	}
	core := mesh.NewCoreID()
	old := startMgmt(t, saying(0))
	was := old.putRoute(t, name, core)
	for range 100 {
		old.putTarget(t, core, mesh.CoreReady)
	}
	addrs := atomic.Pointer[[]string]{}
	addrs.Store(&[]string{old.addr})
	var revocations *identity.Revocations
	var state atomic.Value
	c := old.client(t, func(cfg *gateway.Config) {
		cfg.Addresses = func() []string { return *addrs.Load() }
		cfg.OnTarget = func(tg mesh.Target, _ bool) { state.Store(tg.State) }
		revocations = cfg.Revocations
	})
	got := func() (mesh.DeviceID, mesh.CoreState) {
		r, targets := lookup(t, c, name)
		if len(targets) != 1 {
			return r.Device, ""
		}
		return r.Device, targets[0].State
	}
	if d, s := got(); d != was.Device || s != mesh.CoreReady {
		t.Fatal(d, s)
	}
	eventually(t, "the target is watched", func() bool { return old.watches.Load() > 0 })

	restored := startMgmtOf(t, old.ca, saying(1))
	now := restored.putRoute(t, name, core)
	restored.putTarget(t, core, mesh.CoreLost)
	addrs.Store(&[]string{restored.addr})
	eventually(t, "the restored state is believed", func() bool {
		d, s := got()
		return d == now.Device && s == mesh.CoreLost
	})
	eventually(t, "the watch is at the restored server", func() bool { return restored.watches.Load() > 0 && old.watches.Load() == 0 })
	restored.putTarget(t, core, mesh.CoreReady)
	eventually(t, "the watch goes on", func() bool { return state.Load() == mesh.CoreReady })
	if d, s := got(); d != now.Device || s != mesh.CoreReady {
		t.Errorf("%s is %s", d, s)
	}

	// A server that was away comes back with what was before.
	if err := revocations.Follow(2, old.ca.Epoch(t, 2)); err != nil {
		t.Fatal(err)
	}
	addrs.Store(&[]string{old.addr, restored.addr})
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if d, s := got(); d != now.Device || s != mesh.CoreReady {
			t.Fatalf("an old copy was believed: %s, %s", d, s)
		}
	}
	addrs.Store(&[]string{old.addr})
	eventually(t, "with the old copy alone the last answer serves", func() bool {
		d, _ := got()
		return d == now.Device && !slices.Contains(*addrs.Load(), restored.addr)
	})
}

// What was restored may lack a name that was there.
func TestANameThatARestoreLostIsGone(t *testing.T) {
	t.Parallel()
	m := startMgmt(t)
	m.putRoute(t, name, mesh.NewCoreID())
	addr := atomic.Pointer[string]{}
	addr.Store(&m.addr)
	c := m.client(t, func(cfg *gateway.Config) { cfg.Addresses = func() []string { return []string{*addr.Load()} } })
	lookup(t, c, name)
	restored := startMgmtOf(t, m.ca, func(s *gateway.Server) { s.Epoch = func() int64 { return 2 } })
	addr.Store(&restored.addr)
	eventually(t, "the name is gone", func() bool {
		_, _, err := c.Lookup(t.Context(), name)
		return err != nil
	})
}
