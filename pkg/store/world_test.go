package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

var routeTime = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// world is a small mesh, and what its cores know.
type world struct {
	t       *testing.T
	s       *store.Store
	now     time.Time
	members []mesh.MemberID
	cells   []mesh.CellID
	cores   []mesh.CoreID
	devices []mesh.DeviceID
	built   map[mesh.CoreID]table // sent, not acknowledged
	known   map[mesh.CoreID]table // acknowledged
	names   int
}

// table is what a core knows: server names, as of a revision.
type table struct {
	rev   store.Rev
	names map[mesh.ServerName]mesh.DeviceID
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, s: storetest.New(t), now: routeTime, built: map[mesh.CoreID]table{}, known: map[mesh.CoreID]table{}}
	for i := range 2 {
		w.members = append(w.members, addMember(t, w.s, fmt.Sprint("m", i)).ID)
		w.addCell()
	}
	return w
}

func (w *world) addCell(fallback ...mesh.CellID) mesh.CellID {
	w.t.Helper()
	i := len(w.cells)
	c := mesh.Cell{ID: mesh.NewCellID(), Name: fmt.Sprint("c", i), Suffix: mesh.ServerName(fmt.Sprintf("c%d.example.net", i)), State: mesh.CellActive, Fallback: fallback}
	w.cells = append(w.cells, c.ID)
	w.must(func(tx *store.Tx) error { return store.Create(tx, w.s.Cells, c.ID, c) })
	return c.ID
}

// updateCell changes a cell as an administrator does.
func (w *world) updateCell(id mesh.CellID, f func(*mesh.Cell)) {
	w.t.Helper()
	w.must(func(tx *store.Tx) error {
		if err := store.Update(tx, w.s.Cells, id, func(c *mesh.Cell) error { f(c); return nil }); err != nil {
			return err
		}
		_, err := store.SyncCell(tx, id, w.now)
		return err
	})
}

// spend notes what a device has moved, or guests.
func (w *world) spend(v mesh.Spent) {
	w.t.Helper()
	_, err := w.s.Update(w.t.Context(), func(tx *store.Tx) error {
		err := store.Update(tx, w.s.Spent, v.ID, func(have *mesh.Spent) error { *have = v; return nil })
		if errors.Is(err, mesh.ErrNotFound) {
			err = store.Create(tx, w.s.Spent, v.ID, v)
		}
		if err != nil || v.Device == "" {
			return err
		}
		return store.SyncRoutes(tx, v.Device, w.now)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) must(f func(*store.Tx) error) {
	w.t.Helper()
	change(w.t, w.s, f)
}

func (w *world) addCore(cell int, ready bool) mesh.CoreID {
	w.t.Helper()
	w.names++
	c := mesh.Core{ID: mesh.NewCoreID(), Name: fmt.Sprint("core", w.names), Cell: w.cells[cell], State: mesh.CoreJoined, EverReady: ready}
	w.must(func(tx *store.Tx) error { return store.Create(tx, w.s.Cores, c.ID, c) })
	w.cores = append(w.cores, c.ID)
	return c.ID
}

func (w *world) addDevice(member, cell int) mesh.DeviceID {
	w.t.Helper()
	w.names++
	d := mesh.Device{ID: mesh.NewDeviceID(), Name: fmt.Sprint("d", w.names), Member: w.members[member], State: mesh.DeviceActive,
		Labels: []mesh.Label{{Label: mesh.NewLabel()}}, Assigned: mesh.Assignment{Cell: w.cells[cell]}}
	w.must(func(tx *store.Tx) error {
		if err := store.Create(tx, w.s.Devices, d.ID, d); err != nil {
			return err
		}
		return store.SyncRoutes(tx, d.ID, w.now)
	})
	w.devices = append(w.devices, d.ID)
	return d.ID
}

func (w *world) updateDevice(id mesh.DeviceID, f func(*mesh.Device)) {
	w.t.Helper()
	w.must(func(tx *store.Tx) error {
		if err := store.Update(tx, w.s.Devices, id, func(d *mesh.Device) error { f(d); return nil }); err != nil {
			return err
		}
		return store.SyncRoutes(tx, id, w.now)
	})
}

// move assigns a device as an administrator does.
func (w *world) move(id mesh.DeviceID, to mesh.Assignment) {
	w.t.Helper()
	w.must(func(tx *store.Tx) error {
		places, err := store.PlacesOf(tx, id, w.now)
		if err != nil {
			return err
		}
		err = store.Update(tx, w.s.Devices, id, func(d *mesh.Device) error {
			d.Move(to, places, w.now.Add(mesh.DefaultLabelOverlap))
			return nil
		})
		if err != nil {
			return err
		}
		return store.SyncRoutes(tx, id, w.now)
	})
}

// restore makes a cell active, as an administrator does.
func (w *world) restore(id mesh.CellID) {
	w.t.Helper()
	cells := w.state().cells
	w.updateCell(id, func(c *mesh.Cell) {
		if c.State == mesh.CellCompromised {
			c.Restore(cells, w.now.Add(mesh.DefaultLabelOverlap))
		}
	})
}

// upkeep drops what has ended.
func (w *world) upkeep() {
	w.t.Helper()
	for _, id := range w.cells {
		w.updateCell(id, func(c *mesh.Cell) {
			kept, _ := c.Upkeep(mesh.Config{}, w.now)
			c.Earlier = kept.Earlier
		})
	}
	for _, id := range w.devices {
		w.updateDevice(id, func(d *mesh.Device) { *d, _ = d.Upkeep(mesh.Config{}, w.now) })
	}
}

// build makes the table of a core, as the node control service does.
func (w *world) build(id mesh.CoreID) {
	w.t.Helper()
	tab := table{names: map[mesh.ServerName]mesh.DeviceID{}}
	rev, err := w.s.View(w.t.Context(), func(tx *store.Tx) error {
		st, err := readState(tx, w.s)
		if err != nil {
			return err
		}
		cell := st.cores[id].Cell
		for _, d := range st.devices {
			for _, p := range st.places(d, w.now) {
				if p.Cell.ID != cell {
					continue
				}
				for _, n := range d.Names(p.Cell.Suffix, w.now) {
					tab.names[n] = d.ID
				}
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	tab.rev = rev
	w.built[id] = tab
}

// ack has the core acknowledge the last table built for it.
func (w *world) ack(id mesh.CoreID) {
	w.t.Helper()
	tab, ok := w.built[id]
	if !ok {
		return
	}
	w.known[id] = tab
	node := "core/" + string(id)
	_, err := w.s.Update(w.t.Context(), func(tx *store.Tx) error {
		err := store.Update(tx, w.s.Status, node, func(n *mesh.NodeStatus) error { n.DevicesRev = int64(tab.rev); return nil })
		if errors.Is(err, mesh.ErrNotFound) {
			return store.Create(tx, w.s.Status, node, mesh.NodeStatus{Node: node, DevicesRev: int64(tab.rev)})
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reconcile() int {
	w.t.Helper()
	n, err := w.s.ReconcileRoutes(w.t.Context(), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// settle has every core learn everything.
func (w *world) settle() {
	w.t.Helper()
	for _, id := range w.cores {
		w.build(id)
		w.ack(id)
	}
	w.reconcile()
}

type state struct {
	members map[mesh.MemberID]mesh.Member
	devices map[mesh.DeviceID]mesh.Device
	cells   map[mesh.CellID]mesh.Cell
	cores   map[mesh.CoreID]mesh.Core
	routes  map[mesh.ServerName]mesh.Route
	spent   map[string]mesh.Spent
}

// places is where a device is to be served, worked out in another way than the
// store does.
func (st state) places(d mesh.Device, now time.Time) []mesh.Placement {
	if mesh.DeviceStanding(d, st.members[d.Member], st.spent[string(d.ID)].Moved, now) != mesh.StandingOK {
		return nil
	}
	taken := mesh.Taken{Spent: map[mesh.CellID]bool{}}
	for _, o := range st.devices {
		if o.Member == d.Member {
			taken.Devices = append(taken.Devices, o)
		}
	}
	for id, c := range st.cells {
		taken.Spent[id] = c.Guests.ExhaustedBy(st.spent[mesh.SpentGuests(id, d.Member)].Moved)
	}
	return slices.DeleteFunc(mesh.Placements(d, st.cells, taken), func(p mesh.Placement) bool { return p.Ended(now) })
}

func readState(tx *store.Tx, s *store.Store) (st state, err error) {
	var errs [6]error
	st.members, errs[0] = store.List(tx, s.Members)
	st.devices, errs[1] = store.List(tx, s.Devices)
	st.cells, errs[2] = store.List(tx, s.Cells)
	st.cores, errs[3] = store.List(tx, s.Cores)
	st.routes, errs[4] = store.List(tx, s.Routes)
	st.spent, errs[5] = store.List(tx, s.Spent)
	return st, errors.Join(errs[:]...)
}

func (w *world) state() (st state) {
	w.t.Helper()
	if _, err := w.s.View(w.t.Context(), func(tx *store.Tx) (err error) { st, err = readState(tx, w.s); return err }); err != nil {
		w.t.Fatal(err)
	}
	return st
}

// check verifies what must hold at every moment.
func (w *world) check(after string) {
	w.t.Helper()
	st := w.state()
	for n, r := range st.routes {
		d, ok := st.devices[r.Device]
		places := st.places(d, w.now)
		if !ok || len(places) == 0 {
			w.t.Fatalf("after %s: %s leads to device %s, which is not served", after, n, r.Device)
		}
		at := slices.IndexFunc(places, func(p mesh.Placement) bool { return n.Under(p.Cell.Suffix) })
		if r.Name != n || at < 0 || !slices.ContainsFunc(d.Labels, func(l mesh.Label) bool { return mesh.ServerName(l.Label)+"."+places[at].Cell.Suffix == n }) {
			w.t.Fatalf("after %s: %s is no name of device %s", after, n, r.Device)
		}
		var cores []mesh.Core
		for _, h := range r.Hops {
			id := mesh.CoreID(h.ID)
			if w.known[id].names[n] != r.Device {
				w.t.Fatalf("after %s: %s leads to core %s, which does not know it", after, n, id)
			}
			cores = append(cores, st.cores[id])
		}
		if want := mesh.Hops(d, places[at].Cell.ID, cores, func(mesh.Core) bool { return true }); len(r.Hops) == 0 || !reflect.DeepEqual(r.Hops, want) {
			w.t.Fatalf("after %s: %s goes by %v, want %v", after, n, r.Hops, want)
		}
	}
}

// checkComplete verifies what must hold once every core knows everything.
func (w *world) checkComplete() {
	w.t.Helper()
	w.check("settling")
	st := w.state()
	want := map[mesh.ServerName]mesh.Route{}
	var cores []mesh.Core
	for _, c := range st.cores {
		cores = append(cores, c)
	}
	for _, d := range st.devices {
		for _, p := range st.places(d, w.now) {
			hops := mesh.Hops(d, p.Cell.ID, cores, func(mesh.Core) bool { return true })
			for _, r := range mesh.RoutesOf(d, p, hops, w.now) {
				want[r.Name] = r
			}
		}
	}
	if len(want)+len(st.routes) > 0 && !reflect.DeepEqual(st.routes, want) {
		w.t.Fatalf("got routes %v\nwant %v", st.routes, want)
	}
	if n := w.reconcile(); n != 0 {
		w.t.Fatalf("a second pass changed %d devices", n)
	}
}

func (w *world) routes() map[mesh.ServerName]mesh.Route { return w.state().routes }
