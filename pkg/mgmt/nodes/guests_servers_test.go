package nodes

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// The leader dies in the moment in which a cell is lost. Another takes its devices
// to the fallback, whose core is on a third server, and keeps what that grants.
func TestACellIsLostWhileTheLeaderDies(t *testing.T) {
	t.Parallel()
	all := newServers(t, 3, metering())
	one, two := all[1], all[2]
	b := one.addCellB()
	home := one.counting(one.cell, "home")
	away := two.counting(b, "away")
	d := one.addDevice("phone")
	one.waitServed(d)
	one.updateCell(b.ID, func(c *mesh.Cell) { c.Guests.Traffic = 100 })

	all[0].kill()
	one.updateCell(one.cell.ID, func(c *mesh.Cell) {
		c.State, c.Fallback, c.Compromised = mesh.CellCompromised, []mesh.CellID{b.ID}, time.Now().UTC()
	})
	began := time.Now()
	eventually(t, "the device is a guest", func() bool { _, ok := one.route(d, b); return ok && away.serves(d) })
	t.Logf("taken in within %v, of which the lease of the dead leader is %v", time.Since(began), term)
	if _, ok := one.route(d, one.cell); !ok || !home.serves(d) {
		t.Error("its own cell serves it no more: what works may work on")
	}
	away.count(d, 50, 50)
	eventually(t, "its guest quota is kept", func() bool { _, ok := one.route(d, b); return !ok && !away.serves(d) })
	two.wantEvent(mesh.EventQuotaReached, mesh.ObjectMember+string(one.member.ID))

	one.updateCell(b.ID, func(c *mesh.Cell) { c.Guests.Traffic = 0 })
	eventually(t, "taken in again", func() bool { _, ok := one.route(d, b); return ok && away.serves(d) })
	one.change(func(tx *store.Tx) error { // the way to another cell for good
		return store.Update(tx, one.store.Devices, d.ID, func(d *mesh.Device) error { d.Assigned.Cell = b.ID; return nil })
	})
	eventually(t, "moved", func() bool {
		_, ok := one.route(d, b)
		_, was := one.route(d, one.cell)
		return ok && !was && !home.serves(d)
	})
}

// A limit is of what cores on all servers have counted, also when the server that
// was told of some of it is gone.
func TestAQuotaOutlivesAServer(t *testing.T) {
	t.Parallel()
	all := newServers(t, 3, metering())
	a, b := all[0].counting(all[0].cell, "a"), all[1].counting(all[1].cell, "b")
	d := all[2].addDevice("phone")
	all[2].updateDevice(d, func(d *mesh.Device) { d.Limits.Traffic = 100 })
	eventually(t, "served", func() bool { return len(all[2].via(d)) == 2 && a.serves(d) && b.serves(d) })
	a.count(d, 60, 0)
	eventually(t, "what the first core counted is written", func() bool {
		all, err := all[2].store.Traffic(t.Context())
		return err == nil && all.Devices[d.ID].Up == 60
	})
	all[0].kill()
	b.count(d, 0, 40)
	eventually(t, "cut off", func() bool { return len(all[2].via(d)) == 0 && !b.serves(d) })
	if e := all[2].events(mesh.EventQuotaReached, mesh.ObjectDevice+string(d.ID)); len(e) != 1 {
		t.Errorf("events %+v", e)
	}
}
