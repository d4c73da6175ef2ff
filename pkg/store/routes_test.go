package store_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

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

func TestADeviceThatCannotBeRoutedHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.addCore(0, true)
	first := w.addDevice(0, 0)
	twin, odd, last := w.addDevice(0, 0), w.addDevice(0, 0), w.addDevice(1, 0)
	label := w.state().devices[first].Labels[0].Label
	w.must(func(tx *store.Tx) error {
		set := func(id mesh.DeviceID, label string) error {
			return store.Update(tx, w.s.Devices, id, func(d *mesh.Device) error { d.Labels[0].Label = label; return nil })
		}
		return errors.Join(set(twin, label), set(odd, "not a label"))
	})
	w.build(w.cores[0])
	w.ack(w.cores[0])
	n, err := w.s.ReconcileRoutes(t.Context(), w.now)
	if n != 2 || !errors.Is(err, mesh.ErrExists) || !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("changed %d, %v; want two, and both faults named", n, err)
	}
	served := map[mesh.DeviceID]bool{}
	for _, r := range w.routes() {
		served[r.Device] = true
	}
	if len(served) != 2 || !served[last] || served[odd] || served[first] == served[twin] {
		t.Errorf("got routes of %v", served)
	}
}
