package nodes

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// addCellB makes a second cell.
func (n *network) addCellB() mesh.Cell {
	n.t.Helper()
	c := mesh.Cell{ID: mesh.NewCellID(), Name: "b", Suffix: "b.example.net", State: mesh.CellActive, Certificate: mesh.CertificatePrivate}
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.Cells, c.ID, c) })
	return c
}

// addCoreOf is addCore in another cell.
func (n *network) addCoreOf(c mesh.Cell, name string) *fake {
	n.t.Helper()
	f := n.addCore(name)
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Cores, mesh.CoreID(f.id.ID), func(v *mesh.Core) error { v.Cell = c.ID; return nil })
	})
	return f
}

func (n *network) updateCell(id mesh.CellID, f func(*mesh.Cell)) {
	n.t.Helper()
	n.change(func(tx *store.Tx) error {
		if err := store.Update(tx, n.store.Cells, id, func(c *mesh.Cell) error { f(c); return nil }); err != nil {
			return err
		}
		_, err := store.SyncCell(tx, id, time.Now())
		return err
	})
}

// route is that of a device in a cell.
func (n *network) route(d mesh.Device, c mesh.Cell) (mesh.Route, bool) {
	n.t.Helper()
	r, err := n.store.Routes.Get(n.t.Context(), mesh.ServerName(d.Labels[0].Label)+"."+c.Suffix)
	return r.Value, err == nil
}

// The whole way of a device whose cell is lost: its fallback's cores learn of it
// before its route there is written, under their own names and with what guests
// may use; then it goes back home, or moves in for good.
func TestDevicesOfALostCellAreGuestsOfItsFallback(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	b := n.addCellB()
	n.readyCore("home")
	f := n.addCoreOf(b, "away")
	f.relay(f.node)
	var mu sync.Mutex
	var told *controlpb.Device // nil: it is not to know the device
	var rev int64
	released := false // a table that holds the device is acknowledged
	l := f.greet()
	f.live(l, func(m *controlpb.Devices) bool {
		mu.Lock()
		defer mu.Unlock()
		for _, u := range m.GetUpserts() {
			told = u
		}
		if slices.Contains(m.GetRemoves(), string(told.GetId())) {
			told = nil
		}
		rev = m.GetRevision()
		return told == nil || released
	})
	release := func(yes bool) {
		mu.Lock()
		defer mu.Unlock()
		if released = yes; yes {
			l.ack(controlpb.Ack_KIND_DEVICES, rev, "")
		}
	}
	n.wantState(f, mesh.CoreReady)
	d := n.addDevice("phone")
	n.waitServed(d)

	n.updateCell(b.ID, func(c *mesh.Cell) { c.Guests.Connections = 2 })
	n.updateCell(n.cell.ID, func(c *mesh.Cell) { c.Fallback = []mesh.CellID{b.ID} })
	eventually(t, "the fallback is known", func() bool { c, _ := n.svc.view.cells.Get(n.cell.ID); return len(c.Fallback) == 1 })
	mayServe := func() bool { return n.svc.mayServe(identity.Peer{Identity: f.id})(d.ID) }
	if mayServe() {
		t.Error("a core of the fallback may count for a device of a cell that was never lost")
	}
	n.updateCell(n.cell.ID, func(c *mesh.Cell) { c.State, c.Compromised = mesh.CellCompromised, time.Now().UTC() })
	eventually(t, "the core of the fallback is told", func() bool { mu.Lock(); defer mu.Unlock(); return told != nil })
	mu.Lock()
	if got := told.GetServerNames(); !slices.Equal(got, []string{d.Labels[0].Label + ".b.example.net"}) || told.GetMaxConnections() != 2 || told.GetHiddenHost() != d.HiddenLabel+".b.example.net" {
		t.Errorf("told %v", told)
	}
	mu.Unlock()
	never(t, "a route to a core that has not acknowledged the guest", func() bool { _, ok := n.route(d, b); return ok })
	release(true)
	eventually(t, "the guest has a route", func() bool { r, ok := n.route(d, b); return ok && r.Hops[0].ID == f.id.ID && r.Limits.Connections == 2 })
	n.waitServed(d)
	if _, ok := n.route(d, n.cell); !ok {
		t.Error("its own route is gone: what works may work on")
	}

	// What it moves there counts for it.
	l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Metered: []*controlpb.DeviceUsage{{Device: string(d.ID), Up: 7}}}}})
	eventually(t, "its traffic counts", func() bool {
		if _, err := n.svc.flushUsage(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		all, err := n.store.Traffic(t.Context())
		return err == nil && all.Devices[d.ID].Up == 7
	})

	end := time.Now().Add(3 * time.Second).UTC()
	n.updateCell(n.cell.ID, func(c *mesh.Cell) {
		c.Restore(map[mesh.CellID]mesh.Cell{c.ID: *c, b.ID: b}, end)
	})
	mu.Lock()
	served := told != nil
	mu.Unlock()
	if r, ok := n.route(d, b); ok && !r.Until.Equal(end) || !ok && time.Now().Before(end) || !served && time.Now().Before(end) {
		t.Errorf("route %+v (%v) and known %v: where it was a guest it stays for a while", r, ok, served)
	}
	eventually(t, "what it moved away may still be told", func() bool {
		c, _ := n.svc.view.cells.Get(n.cell.ID)
		return c.State == mesh.CellActive && mayServe()
	})
	eventually(t, "back home", func() bool {
		mu.Lock()
		defer mu.Unlock()
		_, ok := n.route(d, b)
		return !ok && told == nil
	})
	eventually(t, "upkeep", func() bool {
		c, err := n.store.Cells.Get(t.Context(), n.cell.ID)
		return err == nil && c.Value.Earlier == nil
	})
	if time.Now().Before(end) {
		t.Error("what it was given earlier has ended too soon")
	}
	release(false)
	n.updateCell(n.cell.ID, func(c *mesh.Cell) { c.State = mesh.CellRetired })
	eventually(t, "told again", func() bool { mu.Lock(); defer mu.Unlock(); return told != nil })
	never(t, "a route to a core that has not acknowledged the guest again", func() bool { _, ok := n.route(d, b); return ok })
	release(true)
	eventually(t, "only the fallback is left", func() bool {
		_, home := n.route(d, n.cell)
		_, away := n.route(d, b)
		return !home && away
	})
}

func TestTheNameOfTheSubscriptionServiceLeadsHere(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	const name = mesh.ServerName("sub.example.org")
	id := mesh.ServerID(n.server.Identity().ID)
	n.change(func(tx *store.Tx) error {
		if err := store.Create(tx, n.store.Servers, id, mesh.Server{ID: id, Name: "one", State: mesh.ServerMember, Addresses: []string{"127.0.0.1:8443"}}); err != nil {
			return err
		}
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error { c.Subscription.Name = name; return nil })
	})
	eventually(t, "a route and a target", func() bool {
		r, err := n.store.Routes.Get(t.Context(), name)
		g, err2 := n.store.Targets.Get(t.Context(), string(id))
		return err == nil && err2 == nil && slices.Equal(r.Value.Hops, []mesh.Hop{{Kind: mesh.HopMgmt, ID: string(id)}}) &&
			g.Value.Identity == n.server.Identity().String() && g.Value.Addresses[0].String() == "127.0.0.1:8443"
	})
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error { c.Subscription.Name = ""; return nil })
	})
	eventually(t, "neither", func() bool {
		_, err := n.store.Routes.Get(t.Context(), name)
		_, err2 := n.store.Targets.Get(t.Context(), string(id))
		return err != nil && err2 != nil
	})
}
