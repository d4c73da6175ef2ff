package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/gateway"
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
		c := mesh.Cell{ID: mesh.NewCellID(), Name: fmt.Sprint("c", i), Suffix: mesh.ServerName(fmt.Sprintf("c%d.example.net", i)), State: mesh.CellActive}
		w.cells = append(w.cells, c.ID)
		w.must(func(tx *store.Tx) error { return store.Create(tx, w.s.Cells, c.ID, c) })
	}
	return w
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
			if d.Assigned.Cell == cell && d.Served(st.members[d.Member], st.cells[cell], w.now) {
				for _, n := range d.Names(st.cells[cell].Suffix, w.now) {
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
}

func readState(tx *store.Tx, s *store.Store) (st state, err error) {
	var errs [5]error
	st.members, errs[0] = store.List(tx, s.Members)
	st.devices, errs[1] = store.List(tx, s.Devices)
	st.cells, errs[2] = store.List(tx, s.Cells)
	st.cores, errs[3] = store.List(tx, s.Cores)
	st.routes, errs[4] = store.List(tx, s.Routes)
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
		cell := st.cells[d.Assigned.Cell]
		if !ok || !d.Served(st.members[d.Member], cell, w.now) {
			w.t.Fatalf("after %s: %s leads to device %s, which is not served", after, n, r.Device)
		}
		if r.Name != n || !slices.ContainsFunc(d.Labels, func(l mesh.Label) bool { return mesh.ServerName(l.Label)+"."+cell.Suffix == n }) {
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
		if want := mesh.Hops(d, cores, func(mesh.Core) bool { return true }); len(r.Hops) == 0 || !reflect.DeepEqual(r.Hops, want) {
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
		cell := st.cells[d.Assigned.Cell]
		hops := mesh.Hops(d, cores, func(mesh.Core) bool { return true })
		for _, r := range mesh.RoutesOf(d, st.members[d.Member], cell, hops, w.now) {
			want[r.Name] = r
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

func TestARouteWaitsForACoreThatKnowsTheDevice(t *testing.T) {
	w := newWorld(t)
	a := w.addCore(0, true)
	w.build(a)
	w.ack(a)
	d := w.addDevice(0, 0)
	if got := w.routes(); len(got) != 0 {
		t.Fatalf("got %v before the core knows the device", got)
	}
	w.settle()
	b := w.addCore(0, true)
	w.reconcile()
	for n, r := range w.routes() {
		if len(r.Hops) != 1 || r.Hops[0].ID != string(a) {
			t.Errorf("%s goes by %v, want %s alone", n, r.Hops, a)
		}
	}
	w.build(b)
	w.ack(b)
	w.reconcile()
	w.checkComplete()
	before := w.routes()
	w.updateDevice(d, func(d *mesh.Device) { d.Limits.Connections = 5 })
	for n, r := range w.routes() {
		if !reflect.DeepEqual(r.Hops, before[n].Hops) || r.Limits.Connections != 5 {
			t.Errorf("%s became %+v: the cores that know it stay, with the new limit", n, r)
		}
	}
}

func TestATableOfBeforeTheMemberWasActiveIsNotEnough(t *testing.T) {
	w := newWorld(t)
	a := w.addCore(0, true)
	w.addDevice(0, 0)
	setMember := func(state mesh.MemberState) {
		w.must(func(tx *store.Tx) error {
			if err := store.Update(tx, w.s.Members, w.members[0], func(m *mesh.Member) error { m.State = state; return nil }); err != nil {
				return err
			}
			_, err := store.SyncMember(tx, w.members[0], w.now)
			return err
		})
	}
	w.settle()
	setMember(mesh.MemberSuspended)
	if got := w.routes(); len(got) != 0 {
		t.Fatalf("got %v of a suspended member", got)
	}
	w.build(a) // without the device
	setMember(mesh.MemberActive)
	w.ack(a)
	w.reconcile()
	if got := w.routes(); len(got) != 0 {
		t.Fatalf("got %v: the core's table is of before", got)
	}
	w.settle()
	w.checkComplete()
}

func TestRoutesOfADeviceGoWithItInTheSameMoment(t *testing.T) {
	for name, end := range map[string]func(w *world, tx *store.Tx, id mesh.DeviceID) error{
		"deleted": func(w *world, tx *store.Tx, id mesh.DeviceID) error { return store.Delete(tx, w.s.Devices, id) },
		"revoked": func(w *world, tx *store.Tx, id mesh.DeviceID) error {
			return store.Update(tx, w.s.Devices, id, func(d *mesh.Device) error { d.State = mesh.DeviceRevoked; return nil })
		},
		"moved": func(w *world, tx *store.Tx, id mesh.DeviceID) error {
			return store.Update(tx, w.s.Devices, id, func(d *mesh.Device) error { d.Assigned.Cell = w.cells[1]; return nil })
		},
		"renamed": func(w *world, tx *store.Tx, id mesh.DeviceID) error {
			return store.Update(tx, w.s.Devices, id, func(d *mesh.Device) error { d.Labels = []mesh.Label{{Label: "other"}}; return nil })
		},
		"cell retired": func(w *world, tx *store.Tx, id mesh.DeviceID) error {
			if err := store.Update(tx, w.s.Cells, w.cells[0], func(c *mesh.Cell) error { c.State = mesh.CellRetired; return nil }); err != nil {
				return err
			}
			_, err := store.SyncCell(tx, w.cells[0], w.now)
			return err
		},
		"core revoked": func(w *world, tx *store.Tx, id mesh.DeviceID) error {
			if err := store.Update(tx, w.s.Cores, w.cores[0], func(c *mesh.Core) error { c.Revoked = true; return nil }); err != nil {
				return err
			}
			_, err := store.SyncCell(tx, w.cells[0], w.now)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.addCore(0, true)
			id := w.addDevice(0, 0)
			w.settle()
			if len(w.routes()) != 1 {
				t.Fatal("no route to begin with")
			}
			w.must(func(tx *store.Tx) error {
				if err := end(w, tx, id); err != nil {
					return err
				}
				return store.SyncRoutes(tx, id, w.now)
			})
			if got := w.routes(); len(got) != 0 {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWhatDoesNotFitIsLeftToTheReconciler(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	const n = 40
	for range n {
		w.addDevice(0, 0)
	}
	w.settle()
	if got := len(w.routes()); got != n {
		t.Fatalf("got %d routes, want %d", got, n)
	}
	var all bool
	w.must(func(tx *store.Tx) error {
		err := store.Update(tx, w.s.Members, w.members[0], func(m *mesh.Member) error { m.State = mesh.MemberArchived; return nil })
		if err != nil {
			return err
		}
		all, err = store.SyncMember(tx, w.members[0], w.now)
		return err
	})
	left := len(w.routes())
	if all || left == 0 || left > n-15 {
		t.Errorf("all %v, %d routes left of %d", all, left, n)
	}
	if w.reconcile(); len(w.routes()) != 0 {
		t.Errorf("%d routes left after the reconciler", len(w.routes()))
	}
}

func TestTheReconcilerMendsWhatNobodyAccountsFor(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	w.addDevice(0, 0)
	w.settle()
	stray := mesh.Route{Name: "stray.c0.example.net", Device: mesh.NewDeviceID(), Hops: []mesh.Hop{{Kind: mesh.HopCore, ID: string(w.cores[0])}}}
	own := stray
	own.Name, own.Device = "old.c0.example.net", w.devices[0]
	if _, err := w.s.Update(t.Context(), func(tx *store.Tx) error {
		for n := range w.routes() {
			if err := store.Delete(tx, w.s.Routes, n); err != nil {
				return err
			}
		}
		return errors.Join(store.Create(tx, w.s.Routes, stray.Name, stray), store.Create(tx, w.s.Routes, own.Name, own))
	}); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	w.checkComplete()
}

func TestALabelThatEndsIsRoutedUntilThen(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	id := w.addDevice(0, 0)
	w.settle()
	w.updateDevice(id, func(d *mesh.Device) {
		d.Labels[0].NotAfter = w.now.Add(time.Hour)
		d.Labels = append(d.Labels, mesh.Label{Label: "next"})
	})
	for n, r := range w.routes() {
		if !r.Until.Equal(w.now.Add(time.Hour)) {
			t.Errorf("%s until %v: the new name is not known yet, the old one ends", n, r.Until)
		}
	}
	w.settle()
	if got := len(w.routes()); got != 2 {
		t.Errorf("got %d routes during the overlap, want 2", got)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.reconcile()
	if _, ok := w.routes()["next.c0.example.net"]; !ok || len(w.routes()) != 1 {
		t.Errorf("got %v after the overlap, want the new name", w.routes())
	}
}

// TestRoutesHoldOverRandomHistories makes random changes in random order and
// checks after each that every route is right, and now and then that none is
// missing.
func TestRoutesHoldOverRandomHistories(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t)
			w.addCore(0, true)
			w.addCore(1, true)
			for step := range 120 {
				what := w.step(r)
				w.check(fmt.Sprintf("step %d, %s", step, what))
				if step%40 == 39 {
					w.settle()
					w.checkComplete()
				}
			}
		})
	}
}

func pick[T any](r *rand.Rand, s []T) T { return s[r.IntN(len(s))] }

func (w *world) step(r *rand.Rand) string {
	w.t.Helper()
	switch k := r.IntN(14); {
	case k == 0 && len(w.cores) < 8:
		w.addCore(r.IntN(2), r.IntN(2) == 0)
		return "a core"
	case k == 1 || len(w.devices) == 0:
		w.addDevice(r.IntN(2), r.IntN(2))
		return "a device"
	case k == 2:
		w.updateDevice(pick(r, w.devices), func(d *mesh.Device) {
			d.State = pick(r, []mesh.DeviceState{mesh.DeviceActive, mesh.DeviceSuspended})
		})
		return "a device's state"
	case k == 3:
		w.updateDevice(pick(r, w.devices), func(d *mesh.Device) {
			d.Assigned = mesh.Assignment{Cell: pick(r, w.cells)}
			if r.IntN(2) == 0 {
				d.Assigned.Core = pick(r, w.cores)
			}
		})
		return "a move"
	case k == 4:
		w.updateDevice(pick(r, w.devices), func(d *mesh.Device) {
			d.Labels = append(d.Labels, mesh.Label{Label: mesh.NewLabel()})
			d.Labels = d.Labels[max(0, len(d.Labels)-1-r.IntN(2)):]
		})
		return "a label"
	case k == 5:
		i := r.IntN(len(w.devices))
		id := w.devices[i]
		w.devices = slices.Delete(w.devices, i, i+1)
		w.must(func(tx *store.Tx) error {
			if err := store.Delete(tx, w.s.Devices, id); err != nil {
				return err
			}
			return store.SyncRoutes(tx, id, w.now)
		})
		return "a deletion"
	case k == 6:
		return w.stepMember(r)
	case k == 7:
		return w.stepCore(r)
	case k < 10:
		w.build(pick(r, w.cores))
		return "a table"
	case k < 12:
		w.ack(pick(r, w.cores))
		return "an acknowledgement"
	}
	w.reconcile()
	return "a pass"
}

func (w *world) stepMember(r *rand.Rand) string {
	w.t.Helper()
	id := pick(r, w.members)
	w.must(func(tx *store.Tx) error {
		err := store.Update(tx, w.s.Members, id, func(m *mesh.Member) error {
			m.State = pick(r, []mesh.MemberState{mesh.MemberActive, mesh.MemberSuspended})
			return nil
		})
		if err != nil {
			return err
		}
		all, err := store.SyncMember(tx, id, w.now)
		if !all {
			return fmt.Errorf("a few devices do not fit: %w", err)
		}
		return err
	})
	return "a member's state"
}

func (w *world) stepCore(r *rand.Rand) string {
	w.t.Helper()
	id := pick(r, w.cores)
	w.must(func(tx *store.Tx) error {
		core, err := store.Get(tx, w.s.Cores, id)
		if err != nil {
			return err
		}
		err = store.Update(tx, w.s.Cores, id, func(c *mesh.Core) error {
			c.EverReady = true
			c.Revoked = c.Revoked || r.IntN(4) == 0
			return nil
		})
		if err != nil {
			return err
		}
		_, err = store.SyncCell(tx, core.Cell, w.now)
		return err
	})
	return "a core's state"
}

func TestATargetFollowsItsCore(t *testing.T) {
	s := storetest.New(t)
	m := mesh.NewID()
	core := mesh.Core{ID: mesh.NewCoreID(), Name: "c", Cell: mesh.NewCellID(), State: mesh.CoreReady, Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:8444")}}
	sync := func(tx *store.Tx) error { return store.SyncTarget(tx, m, core.ID, "relay/2", "relay/1") }
	change(t, s, func(tx *store.Tx) error {
		if err := store.Create(tx, s.Cores, core.ID, core); err != nil {
			return err
		}
		return sync(tx)
	})
	it, err := s.Targets.Get(t.Context(), string(core.ID))
	if want := mesh.TargetOf(m, core, "relay/2", "relay/1"); err != nil || !reflect.DeepEqual(it.Value, want) {
		t.Fatalf("got %+v, %v; want %+v", it.Value, err, want)
	}
	if rev, err := s.Update(t.Context(), sync); err != nil || rev < it.Rev {
		t.Fatal(rev, err)
	}
	if again, err := s.Targets.Get(t.Context(), string(core.ID)); err != nil || again.Rev != it.Rev {
		t.Errorf("got %d, %v: an equal target was written again", again.Rev, err)
	}
	other := mesh.NewCoreID()
	if _, err := s.Update(t.Context(), func(tx *store.Tx) error {
		return store.Create(tx, s.Targets, string(other), mesh.Target{ID: string(other)})
	}); err != nil {
		t.Fatal(err)
	}
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Cores, core.ID, func(c *mesh.Core) error { c.State = mesh.CoreRevoked; return nil })
	})
	if n, err := s.ReconcileTargets(t.Context(), m, "relay/2", "relay/1"); n != 2 || err != nil {
		t.Errorf("got %d, %v; want the stray one and the changed one", n, err)
	}
	all, _, err := s.Targets.List(t.Context())
	if len(all) != 1 || all[string(core.ID)].State != mesh.CoreRevoked || err != nil {
		t.Errorf("got %v, %v", all, err)
	}
	change(t, s, func(tx *store.Tx) error {
		if err := store.Delete(tx, s.Cores, core.ID); err != nil {
			return err
		}
		return sync(tx)
	})
	if _, err := s.Targets.Get(t.Context(), string(core.ID)); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestTheGatewayLooksWhereTheStoreWrites(t *testing.T) {
	if got, want := gateway.RouteKey("a.b"), store.RouteKey("a.b"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := gateway.TargetKey("core-a"), store.TargetKey("core-a"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
