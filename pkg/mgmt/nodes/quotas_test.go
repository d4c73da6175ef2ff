package nodes

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestDecideSpent(t *testing.T) {
	up := func(n int64) mesh.Traffic { return mesh.Traffic{Up: n} }
	for _, tt := range []struct {
		name       string
		limit      spentLimit
		noted, now int64
		known      bool
		want       spentStep
	}{
		{"no limit and nothing noted", spentLimit{}, 0, 1 << 60, false, spentKept},
		{"below the limit", spentLimit{bytes: 10}, 0, 9, false, spentKept},
		{"reached", spentLimit{bytes: 10}, 0, 10, false, spentReached},
		{"reached and noted", spentLimit{bytes: 10}, 10, 500, true, spentKept},
		{"the limit was raised", spentLimit{bytes: 20}, 10, 11, true, spentDropped},
		{"the limit was raised and is reached again", spentLimit{bytes: 20}, 10, 25, true, spentReached},
		{"the limit was taken away", spentLimit{}, 10, 11, true, spentDropped},
		{"counted anew", spentLimit{bytes: 10, from: up(10)}, 10, 11, true, spentDropped},
		{"counted anew and reached again", spentLimit{bytes: 10, from: up(10)}, 10, 20, true, spentReached},
		{"less was moved than is noted", spentLimit{bytes: 10}, 10, 0, true, spentEased},
		{"that is noted now", spentLimit{bytes: 10}, 0, 0, true, spentDropped},
	} {
		if got := decideSpent(tt.limit, up(tt.noted), up(tt.now), tt.known); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// What a device moved as a guest goes on counting where it is served on after a move.
func TestTrafficOfEarlierGuestsCounts(t *testing.T) {
	lost := time.Now()
	host := mesh.Cell{ID: "h", State: mesh.CellActive, Guests: mesh.GuestLimits{Traffic: 100}}
	moved := mesh.Device{ID: "d", Member: "m", Assigned: mesh.Assignment{Cell: "n"},
		Earlier: []mesh.EarlierPlace{{Cell: "h", Guest: true, Lost: lost, NotAfter: lost.Add(time.Hour)}}}
	c := quotaCheck{
		cells:   map[mesh.CellID]mesh.Cell{"h": host, "n": {ID: "n", State: mesh.CellActive}},
		devices: map[mesh.DeviceID]mesh.Device{"d": moved},
		moved: map[mesh.DeviceID]mesh.DeviceTotal{"d": {Guest: map[mesh.CellID]mesh.GuestTotal{
			"h": {Traffic: mesh.Traffic{Up: 100}, Since: lost},
		}}},
	}
	if out := c.outOfStep(lost); len(out) != 1 || out[0].ID != mesh.SpentGuests("h", "m") || out[0].Moved.Up != 100 {
		t.Errorf("got %+v", out)
	}
	moved.Earlier = nil
	c.devices = map[mesh.DeviceID]mesh.Device{"d": moved}
	if out := c.outOfStep(lost); len(out) != 0 {
		t.Errorf("got %+v of a device that is a guest no more", out)
	}
}

// counting is a core that tells what it has counted, and knows whom it serves.
type counting struct {
	*fake
	line *line

	mu    sync.Mutex // guards known
	known map[string]bool
}

func (n *network) counting(c mesh.Cell, name string) *counting {
	n.t.Helper()
	f := &counting{fake: n.addCoreOf(c, name), known: map[string]bool{}}
	f.relay(f.node)
	f.line = f.greet()
	f.live(f.line, func(m *controlpb.Devices) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if m.GetSnapshot() {
			f.known = map[string]bool{}
		}
		for _, d := range m.GetUpserts() {
			f.known[d.GetId()] = true
		}
		for _, id := range m.GetRemoves() {
			delete(f.known, id)
		}
		return true
	})
	n.wantState(f.fake, mesh.CoreReady)
	return f
}

func (f *counting) serves(d mesh.Device) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[string(d.ID)]
}

// count tells what the device has moved since the core started.
func (f *counting) count(d mesh.Device, up, down int64) {
	f.line.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{
		Metered: []*controlpb.DeviceUsage{{Device: string(d.ID), Up: up, Down: down}},
	}}})
}

func (n *network) updateDevice(d mesh.Device, f func(*mesh.Device)) {
	n.t.Helper()
	n.change(func(tx *store.Tx) error {
		if err := store.Update(tx, n.store.Devices, d.ID, func(d *mesh.Device) error { f(d); return nil }); err != nil {
			return err
		}
		return store.SyncRoutes(tx, d.ID, time.Now())
	})
}

func metering() Settings {
	s := quick()
	s.Meter = 50 * time.Millisecond
	return s
}

// A limit counts what all cores have served, and whoever reaches it is served no
// more: not by routes and not by cores. Raising it, or counting anew, undoes that.
func TestAQuotaIsKeptAcrossCores(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, metering(), loopback...)
	a, b := n.counting(n.cell, "a"), n.counting(n.cell, "b")
	d, free := n.addDevice("phone"), n.addDevice("free")
	n.updateDevice(d, func(d *mesh.Device) { d.Limits.Traffic = 100 })
	n.waitServed(d)
	n.waitServed(free)
	object := mesh.ObjectDevice + string(d.ID)
	out := func() bool { return len(n.via(d)) == 0 && !a.serves(d) && !b.serves(d) }
	in := func() bool { return len(n.via(d)) == 2 && a.serves(d) && b.serves(d) }

	a.count(d, 30, 30)
	b.count(d, 0, 39)
	a.count(free, 1000, 1000)
	never(t, "cut off below the limit", func() bool { return !in() })
	b.count(d, 1, 39)
	eventually(t, "cut off at the limit", out)
	if e := n.events(mesh.EventQuotaReached, object); len(e) != 1 || e[0].Cause != "it has moved 100 of 100 bytes, and is served no more" {
		t.Errorf("events %+v", e)
	}
	if len(n.via(free)) != 2 {
		t.Error("another device was cut off as well")
	}
	n.updateDevice(d, func(d *mesh.Device) { d.Limits.Traffic = 200 })
	eventually(t, "served with a higher limit", in)
	a.count(d, 100, 160)
	eventually(t, "cut off again", out)
	n.updateDevice(d, func(d *mesh.Device) {
		d.Reset = mesh.TrafficReset{At: time.Now(), Used: mesh.Traffic{Up: 101, Down: 199}}
	})
	eventually(t, "served once traffic counts anew", in)
	eventually(t, "nothing is noted of it any more", func() bool { _, err := n.store.Spent.Get(t.Context(), string(d.ID)); return err != nil })
	if e := n.events(mesh.EventQuotaReached, object); len(e) != 2 {
		t.Errorf("events %+v, want one for each time", e)
	}
}

// What a cell grants guests is for all devices of a member together, and begins
// anew when their cell is lost anew.
func TestTrafficOfGuestsIsBounded(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, metering(), loopback...)
	b := n.addCellB()
	home, host := n.counting(n.cell, "home"), n.counting(b, "host")
	one, two := n.addDevice("one"), n.addDevice("two")
	n.waitServed(one)
	n.waitServed(two)
	home.count(one, 5000, 0)
	n.updateCell(b.ID, func(c *mesh.Cell) { c.Guests.Traffic = 100 })
	lose := func(at time.Time) {
		n.updateCell(n.cell.ID, func(c *mesh.Cell) {
			c.State, c.Fallback, c.Compromised = mesh.CellCompromised, []mesh.CellID{b.ID}, at.UTC()
		})
	}
	served := func() bool {
		_, ok1 := n.route(one, b)
		_, ok2 := n.route(two, b)
		return ok1 && ok2 && host.serves(one) && host.serves(two)
	}
	lose(time.Now())
	eventually(t, "both are guests", served)
	host.count(one, 60, 0)
	never(t, "sent away below the limit", func() bool { return !served() })
	host.count(two, 0, 40)
	eventually(t, "sent away at the limit", func() bool {
		_, ok1 := n.route(one, b)
		_, ok2 := n.route(two, b)
		return !ok1 && !ok2 && !host.serves(one) && !host.serves(two)
	})
	if _, ok := n.route(one, n.cell); !ok {
		t.Error("the route at home is gone as well")
	}
	n.wantEvent(mesh.EventQuotaReached, mesh.ObjectMember+string(n.member.ID))
	n.updateCell(n.cell.ID, func(c *mesh.Cell) { c.State = mesh.CellActive })
	lose(time.Now().Add(time.Hour)) // counts are of whole hours
	eventually(t, "both are guests again", served)
}

// What was moved as a guest stays counted when hours are added to totals.
func TestTrafficOfGuestsIsInTotals(t *testing.T) {
	w := newMeterWorld(t)
	d, c := mesh.NewDeviceID(), w.cores[0]
	w.guestOf = func(mesh.DeviceID, mesh.CoreID) (mesh.CellID, time.Time, bool) { return "cell-b", time.Time{}, true }
	for i := range 5 {
		c.now[d] += 10
		c.fresh[d] = true
		w.report(0)
		w.flush(0)
		for range 2 {
			all, err := w.store.TrafficOf(t.Context(), w.guestOf)
			if got := all.Devices[d].Guest["cell-b"].Up; err != nil || got != int64(10*(i+1)) {
				t.Errorf("hour %d: %d, %v", i, got, err)
			}
			w.now = w.now.Add(2 * time.Hour)
			w.tally()
		}
	}
}

func BenchmarkQuotasOf50000Devices(b *testing.B) {
	c := quotaCheck{devices: map[mesh.DeviceID]mesh.Device{}, cells: map[mesh.CellID]mesh.Cell{}, noted: map[string]mesh.Spent{}, moved: map[mesh.DeviceID]mesh.DeviceTotal{}}
	for i := range 10 {
		id := mesh.CellID(fmt.Sprint("cell", i))
		cell := mesh.Cell{ID: id, State: mesh.CellActive, Guests: mesh.GuestLimits{Traffic: 1000}}
		if i%2 == 0 {
			cell.State, cell.Fallback = mesh.CellCompromised, []mesh.CellID{mesh.CellID(fmt.Sprint("cell", i+1))}
		}
		c.cells[id] = cell
	}
	for i := range 50_000 {
		d := mesh.Device{ID: mesh.NewDeviceID(), Member: mesh.MemberID(fmt.Sprint("member", i/5)), Assigned: mesh.Assignment{Cell: mesh.CellID(fmt.Sprint("cell", i%10))}}
		d.Limits.Traffic = 1000
		c.devices[d.ID] = d
		c.moved[d.ID] = mesh.DeviceTotal{Traffic: mesh.Traffic{Up: 999}}
	}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if out := c.outOfStep(now); len(out) != 0 {
			b.Fatal(len(out))
		}
	}
}
