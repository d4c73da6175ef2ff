package nodes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// A route must never name a core that has not acknowledged the device.
func TestAcknowledgedBeforeRouted(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.addCore("c")
	f.relay(f.node)
	var mu sync.Mutex
	held := map[string]int64{} // device → revision of the table, not acknowledged
	l := f.greet()
	f.live(l, func(d *controlpb.Devices) bool {
		mu.Lock()
		defer mu.Unlock()
		for _, u := range d.GetUpserts() {
			held[u.GetId()] = d.GetRevision()
		}
		return len(d.GetUpserts()) == 0
	})
	n.wantState(f, mesh.CoreReady)
	d := n.addDevice("phone")
	var rev int64
	eventually(t, "the core is told of the device", func() bool {
		mu.Lock()
		defer mu.Unlock()
		rev = held[string(d.ID)]
		return rev != 0
	})
	it, err := n.store.Devices.Get(t.Context(), d.ID)
	if err != nil || rev < int64(it.Rev) {
		t.Errorf("table of revision %d holds a device of %d", rev, it.Rev)
	}
	never(t, "a route without acknowledgement", func() bool { return len(n.via(d)) > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.svc.WaitServed(ctx, d.ID); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("WaitServed = %v, want ErrUnavailable", err)
	}

	l.ack(controlpb.Ack_KIND_DEVICES, rev, "")
	n.waitServed(d)
	if via := n.via(d); !slices.Equal(via, []string{f.id.ID}) {
		t.Errorf("via %v, want %s", via, f.id.ID)
	}
}

// Adding many devices while cores come and go: whatever the order, each route
// that can be seen names only cores that had acknowledged the device.
func TestRoutesNeverRunAhead(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	var mu sync.Mutex
	known := map[string]map[string]bool{} // core → device: acknowledgement was sent
	for _, name := range []string{"c1", "c2"} {
		f := n.addCore(name)
		f.relay(f.node)
		known[f.id.ID] = map[string]bool{}
		f.live(f.greet(), func(d *controlpb.Devices) bool {
			mu.Lock()
			defer mu.Unlock()
			for _, u := range d.GetUpserts() {
				known[f.id.ID][u.GetId()] = true
			}
			return true
		})
		n.wantState(f, mesh.CoreReady)
	}
	ctx, cancel := context.WithCancel(t.Context())
	routes, rev, err := n.store.Routes.List(ctx)
	if err != nil || len(routes) != 0 {
		t.Fatalf("routes %v, %v", routes, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range n.store.Routes.Watch(ctx, rev) {
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			for _, h := range ev.Value.Hops {
				if !known[h.ID][string(ev.Value.Device)] {
					t.Errorf("a route of %s names %s, which does not know it", ev.Value.Device, h.ID)
				}
			}
			mu.Unlock()
		}
	}()
	var all []mesh.Device
	for i := range 10 {
		all = append(all, n.addDevice(string(rune('a'+i))))
	}
	for _, d := range all {
		n.waitServed(d)
		eventually(t, "both cores are named", func() bool { return len(n.via(d)) == 2 })
	}
	cancel()
	<-done
}

func TestDeviceChanges(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.addCore("c")
	f.relay(f.node)
	var mu sync.Mutex
	table := map[string]*controlpb.Device{}
	f.live(f.greet(), func(d *controlpb.Devices) bool {
		mu.Lock()
		defer mu.Unlock()
		if d.GetSnapshot() {
			clear(table)
		}
		for _, u := range d.GetUpserts() {
			table[u.GetId()] = u
		}
		for _, id := range d.GetRemoves() {
			delete(table, id)
		}
		return true
	})
	has := func(d mesh.Device) bool {
		mu.Lock()
		defer mu.Unlock()
		return table[string(d.ID)] != nil
	}
	n.wantState(f, mesh.CoreReady)
	d := n.addDevice("phone")
	served := func() bool { return has(d) && len(n.via(d)) == 1 }
	gone := func() bool { return !has(d) && len(n.via(d)) == 0 }
	eventually(t, "served", served)

	setMember := func(s mesh.MemberState) {
		n.change(func(tx *store.Tx) error {
			return store.Update(tx, n.store.Members, n.member.ID, func(m *mesh.Member) error { m.State = s; return nil })
		})
	}
	setMember(mesh.MemberSuspended)
	eventually(t, "a suspended member's device is gone", gone)
	setMember(mesh.MemberActive)
	eventually(t, "and comes back", served)

	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Devices, d.ID, func(d *mesh.Device) error {
			d.Limits = mesh.Limits{Connections: 3, Expires: time.Now().Add(time.Hour)}
			return nil
		})
	})
	eventually(t, "limits arrive", func() bool {
		mu.Lock()
		defer mu.Unlock()
		u := table[string(d.ID)]
		return u.GetMaxConnections() == 3 && u.GetExpiresUnixNanos() > 0
	})
	r, err := n.store.Routes.Get(t.Context(), mesh.ServerName(d.Labels[0].Label)+"."+n.cell.Suffix)
	if err != nil || r.Value.Hops[0].ID != f.id.ID {
		t.Errorf("route %+v, %v", r.Value, err)
	}

	n.change(func(tx *store.Tx) error { return store.Delete(tx, n.store.Devices, d.ID) })
	eventually(t, "a deleted device is gone", gone)
}

// Labels and services end although nobody changes anything.
func TestRoutesEndByTime(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	n.readyCore("c")
	d := n.addDevice("phone")
	eventually(t, "served", func() bool { return len(n.via(d)) == 1 })
	old := d.Labels[0]
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Devices, d.ID, func(d *mesh.Device) error {
			d.Labels = []mesh.Label{{Label: old.Label, NotAfter: time.Now().Add(1500 * time.Millisecond)}, {Label: mesh.NewLabel()}}
			return nil
		})
	})
	it, err := n.store.Devices.Get(t.Context(), d.ID)
	if err != nil {
		t.Fatal(err)
	}
	fresh := it.Value
	fresh.Labels = fresh.Labels[1:]
	eventually(t, "the new name has a route", func() bool { return len(n.via(fresh)) == 1 })
	eventually(t, "the old name's has ended", func() bool { return len(n.via(d)) == 0 })
	if time.Now().Before(it.Value.Labels[0].NotAfter) {
		t.Error("the old name ended before its time")
	}
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Devices, d.ID, func(d *mesh.Device) error {
			d.Limits.Expires = time.Now().Add(500 * time.Millisecond)
			return nil
		})
	})
	eventually(t, "service has ended", func() bool { return len(n.via(fresh)) == 0 })
}

func TestWaitServedWithoutCores(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	d := n.addDevice("phone")
	if err := n.svc.WaitServed(t.Context(), d.ID); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("WaitServed = %v, want ErrUnavailable", err)
	}
}

// A core that was never ready gets no devices, and one of another cell others.
func TestTablesAreOfTheCell(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	d := n.addDevice("phone")
	other := mesh.Cell{ID: mesh.NewCellID(), Name: "b", Suffix: "b.example.net", State: mesh.CellActive}
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.Cells, other.ID, other) })
	never1 := n.addCore("not reachable")
	l := never1.greet()
	until(l, (*controlpb.MgmtMessage).GetConfig)

	foreign := n.addCore("foreign")
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Cores, mesh.CoreID(foreign.id.ID), func(c *mesh.Core) error { c.Cell = other.ID; return nil })
	})
	foreign.relay(foreign.node)
	got := make(chan *controlpb.Devices, 10)
	foreign.live(foreign.greet(), func(d *controlpb.Devices) bool { got <- d; return true })
	n.wantState(foreign, mesh.CoreReady)
	if first := <-got; !first.GetSnapshot() || len(first.GetUpserts()) != 0 {
		t.Errorf("the foreign core got %v", first)
	}
	mine := n.readyCore("mine")
	eventually(t, "a route by the cell's own core", func() bool { return slices.Equal(n.via(d), []string{mine.id.ID}) })
	for len(l.in) > 0 {
		if m := l.next(); m.GetDevices() != nil {
			t.Errorf("a core that was never ready got %v", m)
		}
	}
}
