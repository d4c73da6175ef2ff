package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// under are the names with routes under the suffix of a cell.
func (w *world) under(cell int) (out []string) {
	w.t.Helper()
	for n := range w.routes() {
		if suffix := fmt.Sprintf(".c%d.example.net", cell); strings.HasSuffix(string(n), suffix) {
			out = append(out, strings.TrimSuffix(string(n), suffix))
		}
	}
	return out
}

func TestAFallbackTakesInWhoseCellIsCompromised(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	host := w.addCore(1, true)
	id := w.addDevice(0, 0)
	w.settle()
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.Fallback = []mesh.CellID{w.cells[1]} })
	w.updateCell(w.cells[1], func(c *mesh.Cell) { c.Guests.Connections = 3 })
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.State = mesh.CellCompromised })
	if w.reconcile(); len(w.under(0)) != 1 || len(w.under(1)) != 0 {
		t.Fatalf("routes %v: its own stay, and no core of the fallback knows it yet", w.routes())
	}
	w.build(host)
	w.ack(host)
	w.reconcile()
	w.checkComplete()
	if r := w.routes()[mesh.ServerName(w.state().devices[id].Labels[0].Label+".c1.example.net")]; r.Limits.Connections != 3 {
		t.Errorf("route of the guest %+v", r)
	}
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.State = mesh.CellRetired })
	w.reconcile()
	if len(w.under(0)) != 0 || len(w.under(1)) != 1 {
		t.Errorf("of a retired cell: routes %v", w.routes())
	}
	w.updateDevice(id, func(d *mesh.Device) { d.Assigned.Cell = w.cells[1] })
	w.settle()
	w.checkComplete()
	if len(w.under(1)) != 1 {
		t.Errorf("after the move: routes %v", w.routes())
	}
}

func TestAnActiveCellTakesItsDevicesBack(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	w.addCore(1, true)
	w.addDevice(0, 0)
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.Fallback, c.State = []mesh.CellID{w.cells[1]}, mesh.CellCompromised })
	w.settle()
	w.checkComplete()
	if len(w.under(1)) != 1 {
		t.Fatalf("routes %v", w.routes())
	}
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.State = mesh.CellActive })
	w.reconcile()
	w.checkComplete()
	if len(w.under(0)) != 1 || len(w.under(1)) != 0 {
		t.Errorf("routes %v", w.routes())
	}
}

// A table of before a device had room is not enough, although neither the device
// nor any cell has changed since.
func TestAGuestThatHasRoomWaitsForATableOfThen(t *testing.T) {
	w := newWorld(t)
	host := w.addCore(1, true)
	first, second := w.addDevice(0, 0), w.addDevice(0, 0)
	w.updateDevice(second, func(d *mesh.Device) { d.Created = w.now })
	w.updateCell(w.cells[1], func(c *mesh.Cell) { c.Guests.Devices = 1 })
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.Fallback, c.State = []mesh.CellID{w.cells[1]}, mesh.CellCompromised })
	w.settle()
	w.checkComplete()
	if len(w.under(1)) != 1 {
		t.Fatalf("routes %v", w.routes())
	}
	w.must(func(tx *store.Tx) error {
		if err := store.Delete(tx, w.s.Devices, first); err != nil {
			return err
		}
		return store.SyncRoutes(tx, first, w.now)
	})
	w.reconcile()
	if got := w.under(1); len(got) != 0 {
		t.Errorf("routes %v before the core of the fallback knows the second device", got)
	}
	w.build(host)
	w.ack(host)
	w.reconcile()
	w.checkComplete()
	if got := w.under(1); len(got) != 1 || got[0] != w.state().devices[second].Labels[0].Label {
		t.Errorf("routes %v", got)
	}
}

func TestWhoseTrafficIsUsedUpHasNoRoutes(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	id := w.addDevice(0, 0)
	w.updateDevice(id, func(d *mesh.Device) { d.Limits.Traffic = 100 })
	w.settle()
	spent := mesh.Spent{ID: string(id), Device: id, Moved: mesh.Traffic{Up: 60, Down: 40}}
	w.spend(spent)
	if got := w.routes(); len(got) != 0 {
		t.Errorf("routes %v", got)
	}
	w.settle()
	w.checkComplete()
	w.updateDevice(id, func(d *mesh.Device) { d.Limits.Traffic = 101 })
	if got := w.routes(); len(got) != 0 {
		t.Errorf("routes %v before a core knows it again", got)
	}
	w.settle()
	w.checkComplete()
	if got := w.routes(); len(got) != 1 {
		t.Errorf("routes %v with a higher limit", got)
	}
	spent.Moved.Up = 61
	w.spend(spent)
	w.settle()
	w.updateDevice(id, func(d *mesh.Device) { d.Reset = mesh.TrafficReset{At: w.now, Used: spent.Moved} })
	w.settle()
	w.checkComplete()
	if got := w.routes(); len(got) != 1 {
		t.Errorf("routes %v with the traffic counted anew", got)
	}
}

// What holds of all routes holds of those of guests, whatever happens to cells,
// what they grant, and what is moved.
func TestRoutesOfGuestsHoldOverRandomHistories(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			w := newWorld(t)
			w.addCell(w.cells[0])
			w.updateCell(w.cells[0], func(c *mesh.Cell) { c.Fallback = []mesh.CellID{w.cells[1], w.cells[2]} })
			w.updateCell(w.cells[1], func(c *mesh.Cell) { c.Fallback = []mesh.CellID{w.cells[0]} })
			for i := range w.cells {
				w.addCore(i, true)
			}
			for step := range 150 {
				what := w.stepGuests(r)
				w.reconcile() // who is taken in is left to it
				w.check(fmt.Sprintf("step %d, %s", step, what))
				if step%50 == 49 {
					w.settle()
					w.checkComplete()
				}
			}
		})
	}
}

func (w *world) stepGuests(r *rand.Rand) string {
	w.t.Helper()
	switch k := r.IntN(15); {
	case k == 12:
		w.restore(pick(r, w.cells))
		return "a restored cell"
	case k == 13:
		w.now = w.now.Add(mesh.DefaultLabelOverlap / 4)
		return "time"
	case k == 14:
		w.upkeep()
		return "upkeep"
	case k < 2:
		w.updateCell(pick(r, w.cells), func(c *mesh.Cell) {
			c.State = pick(r, []mesh.CellState{mesh.CellActive, mesh.CellCompromised, mesh.CellCompromised, mesh.CellRetired})
		})
		return "a cell's state"
	case k == 2:
		w.updateCell(pick(r, w.cells), func(c *mesh.Cell) {
			c.Guests = mesh.GuestLimits{Devices: r.IntN(3), Traffic: int64(r.IntN(3)) * 50}
		})
		return "what a cell grants"
	case k == 3:
		cell, m := pick(r, w.cells), pick(r, w.members)
		w.spend(mesh.Spent{ID: mesh.SpentGuests(cell, m), Cell: cell, Member: m, Moved: mesh.Traffic{Up: int64(r.IntN(120))}})
		return "traffic of guests"
	case k == 4 && len(w.devices) > 0:
		id := pick(r, w.devices)
		w.updateDevice(id, func(d *mesh.Device) { d.Limits.Traffic = int64(r.IntN(2)) * 50 })
		w.spend(mesh.Spent{ID: string(id), Device: id, Moved: mesh.Traffic{Down: int64(r.IntN(100))}})
		return "traffic of a device"
	}
	return w.step(r)
}

// Clients have yet to hear that a cell is well again, or that they were moved.
func TestWhereADeviceWasServedItsRoutesStayForAWhile(t *testing.T) {
	w := newWorld(t)
	w.addCell()
	var cores []mesh.CoreID
	for i := range w.cells {
		cores = append(cores, w.addCore(i, true))
	}
	id := w.addDevice(0, 0)
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.Fallback, c.State = []mesh.CellID{w.cells[1]}, mesh.CellCompromised })
	want := func(when string, counts ...int) {
		t.Helper()
		w.check(when)
		if got := []int{len(w.under(0)), len(w.under(1)), len(w.under(2))}; !slices.Equal(got, counts) {
			t.Errorf("%s: routes in the cells %v, want %v", when, got, counts)
		}
	}
	w.settle()
	want("compromised", 1, 1, 0)
	w.restore(w.cells[0])
	w.reconcile()
	want("restored", 1, 1, 0)
	until := w.now.Add(mesh.DefaultLabelOverlap)
	for n, r := range w.routes() {
		if strings.HasSuffix(string(n), ".c1.example.net") && !r.Until.Equal(until) || strings.HasSuffix(string(n), ".c0.example.net") && !r.Until.IsZero() {
			t.Errorf("%s until %v", n, r.Until)
		}
	}
	w.now = w.now.Add(mesh.DefaultLabelOverlap - time.Hour)
	w.move(id, mesh.Assignment{Cell: w.cells[2]})
	want("moved, the new core does not know it", 1, 1, 0)
	w.build(cores[2])
	w.ack(cores[2])
	w.reconcile()
	want("moved", 1, 1, 1)
	w.updateDevice(id, func(d *mesh.Device) { d.State = mesh.DeviceSuspended })
	want("suspended", 0, 0, 0)
	w.updateDevice(id, func(d *mesh.Device) { d.State = mesh.DeviceActive })
	w.settle()
	w.checkComplete()
	want("active again", 1, 1, 1)
	w.now = until
	w.settle()
	w.checkComplete()
	want("what was of the fallback has ended", 1, 0, 1)
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.State = mesh.CellRetired })
	want("the old cell is retired", 0, 0, 1)
	w.upkeep()
	w.settle()
	w.checkComplete()
	if d, c := w.state().devices[id], w.state().cells[w.cells[0]]; len(d.Earlier) != 1 || len(c.Earlier) != 0 {
		t.Errorf("after upkeep: %+v, %+v", d.Earlier, c.Earlier)
	}
	w.now = w.now.Add(mesh.DefaultLabelOverlap)
	w.upkeep()
	w.settle()
	w.checkComplete()
	want("all has ended", 0, 0, 1)
	if d := w.state().devices[id]; d.Earlier != nil {
		t.Errorf("after upkeep: %+v", d.Earlier)
	}
}

// Room that an earlier guest leaves is taken once cores know of it.
func TestRoomOfAnEarlierGuestIsFreeAfterUpkeep(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	host := w.addCore(1, true)
	first, second := w.addDevice(0, 0), w.addDevice(0, 0)
	w.updateDevice(second, func(d *mesh.Device) { d.Created = w.now })
	w.addCell()
	w.updateCell(w.cells[1], func(c *mesh.Cell) { c.Guests.Devices = 1 })
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.Fallback, c.State = []mesh.CellID{w.cells[1]}, mesh.CellCompromised })
	w.settle()
	w.move(first, mesh.Assignment{Cell: w.cells[2]})
	w.settle()
	w.checkComplete()
	label := func(id mesh.DeviceID) string { return w.state().devices[id].Labels[0].Label }
	if got := w.under(1); len(got) != 1 || got[0] != label(first) {
		t.Fatalf("guests %v", got)
	}
	w.now = w.now.Add(mesh.DefaultLabelOverlap)
	w.settle()
	w.checkComplete()
	if got := w.under(1); len(got) != 0 {
		t.Fatalf("guests %v: the place has ended, and is not free yet", got)
	}
	w.upkeep()
	if w.reconcile(); len(w.under(1)) != 0 {
		t.Fatalf("guests %v before the core knows the second device", w.under(1))
	}
	w.build(host)
	w.ack(host)
	w.reconcile()
	w.checkComplete()
	if got := w.under(1); len(got) != 1 || got[0] != label(second) {
		t.Errorf("guests %v", got)
	}
}

// A restore has the routes of guests before any core has come back.
func TestImportedRoutesAreThoseOfGuestsToo(t *testing.T) {
	w := newWorld(t)
	w.now = time.Now()
	w.addCore(0, true)
	w.addCore(1, true)
	w.addDevice(0, 0)
	out := w.addDevice(1, 0)
	w.updateDevice(out, func(d *mesh.Device) { d.Limits.Traffic = 10 })
	w.updateCell(w.cells[0], func(c *mesh.Cell) { c.Fallback, c.State = []mesh.CellID{w.cells[1]}, mesh.CellCompromised })
	w.spend(mesh.Spent{ID: string(out), Device: out, Moved: mesh.Traffic{Up: 10}})
	if _, err := w.s.Update(t.Context(), func(tx *store.Tx) error {
		return store.Create(tx, w.s.Totals, "00", mesh.TrafficTotals{Devices: map[mesh.DeviceID]mesh.DeviceTotal{out: {Traffic: mesh.Traffic{Up: 10}}}})
	}); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.checkComplete()
	was := w.routes()
	all, _, err := w.s.Export(t.Context(), 0)
	if err != nil || len(was) != 2 {
		t.Fatalf("routes %v, %v", was, err)
	}
	if slices.ContainsFunc(all, func(o store.Raw) bool { return o.Folder == "spent" }) {
		t.Error("what is spent is in the backup: it is derived")
	}
	w.s = storetest.New(t)
	if err := w.s.Import(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
	got := w.routes()
	if len(got) != 2 {
		t.Errorf("routes %v", got)
	}
	for n, r := range got {
		if r.Device == out || len(r.Hops) != 1 || r.Hops[0] != was[n].Hops[0] {
			t.Errorf("%s: %+v, was %+v", n, r, was[n])
		}
	}
}
