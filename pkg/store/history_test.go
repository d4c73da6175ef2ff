package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

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
		w.addCore(r.IntN(len(w.cells)), r.IntN(2) == 0)
		return "a core"
	case k == 1 || len(w.devices) == 0:
		w.addDevice(r.IntN(2), r.IntN(len(w.cells)))
		return "a device"
	case k == 2:
		w.updateDevice(pick(r, w.devices), func(d *mesh.Device) {
			d.State = pick(r, []mesh.DeviceState{mesh.DeviceActive, mesh.DeviceSuspended})
		})
		return "a device's state"
	case k == 3:
		to := mesh.Assignment{Cell: pick(r, w.cells)}
		if r.IntN(2) == 0 {
			to.Core = pick(r, w.cores)
		}
		w.move(pick(r, w.devices), to)
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
