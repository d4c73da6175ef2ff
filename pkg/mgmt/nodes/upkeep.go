package nodes

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// upkeepBatch is how many devices one transaction looks after, also when each
	// has three labels in four cells; upkeepPass is how many one pass does: who turns
	// on a schedule has them all due at once.
	upkeepBatch = 3
	upkeepPass  = 400
	upkeepRest  = time.Second
)

// keeping looks after what time alone changes of devices and cells, and gives what
// was made by earlier versions what it lacks.
type keeping struct {
	s *Service
	// shut are devices whose secret did not open, told of once between full passes.
	shut map[mesh.DeviceID]bool
}

// pass is one pass. It wants to run again when something ends or is to be replaced.
func (k *keeping) pass(ctx context.Context, full bool) (time.Time, error) {
	if full || k.shut == nil {
		k.shut = map[mesh.DeviceID]bool{}
	}
	v, c, now := k.s.view, k.s.config(), time.Now().UTC()
	var next time.Time
	var errs []error
	for id, cell := range v.cells.All() {
		kept, at := cell.Upkeep(c, now)
		next = sooner(next, at)
		if !reflect.DeepEqual(kept.Paths, cell.Paths) || len(kept.Earlier) != len(cell.Earlier) {
			errs = append(errs, k.cell(ctx, id, c, now))
		}
	}
	var todo []mesh.DeviceID
	for id, d := range v.devices.All() {
		kept, at := d.Upkeep(c, now)
		next = sooner(next, at)
		if !reflect.DeepEqual(kept.Labels, d.Labels) || len(kept.Earlier) != len(d.Earlier) || k.lacksVerifiers(d) {
			todo = append(todo, id)
		}
	}
	slices.Sort(todo)
	for batch := range slices.Chunk(todo[:min(len(todo), upkeepPass)], upkeepBatch) {
		errs = append(errs, k.devices(ctx, batch, c, now))
	}
	if len(todo) > upkeepPass {
		next = sooner(next, now.Add(upkeepRest))
	}
	return next, errors.Join(errs...)
}

func (k *keeping) lacksVerifiers(d mesh.Device) bool {
	return (d.Verifiers.VLESS == "" || d.Verifiers.Trojan == "") && d.State != mesh.DeviceRevoked && !k.shut[d.ID]
}

func (k *keeping) cell(ctx context.Context, id mesh.CellID, c mesh.Config, now time.Time) error {
	_, err := k.s.Store.Change(ctx, store.By{Actor: actor}, "cell.upkeep", func(tx *store.Tx) error {
		return store.Update(tx, k.s.Store.Cells, id, func(v *mesh.Cell) error {
			*v, _ = v.Upkeep(c, now)
			return nil
		})
	})
	return ignoreAbsent(err)
}

// devices decides again on what the store says inside the transaction.
func (k *keeping) devices(ctx context.Context, ids []mesh.DeviceID, c mesh.Config, now time.Time) error {
	st := k.s.Store
	_, err := st.Change(ctx, store.By{Actor: actor}, "device.upkeep", func(tx *store.Tx) error {
		for _, id := range ids {
			err := store.Update(tx, st.Devices, id, func(d *mesh.Device) error {
				*d, _ = d.Upkeep(c, now)
				k.verifiers(d)
				return nil
			})
			if err == nil {
				err = store.SyncRoutes(tx, id, now)
			}
			if ignoreAbsent(err) != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// verifiers gives a device those that it lacks. Without its secret it keeps what
// it has, and works as before.
func (k *keeping) verifiers(d *mesh.Device) {
	if !k.lacksVerifiers(*d) {
		return
	}
	secret, err := k.s.Store.Unseal(store.DeviceSecretPlace(d.ID), d.Secret)
	if err != nil {
		k.shut[d.ID] = true
		k.s.Log.Warn("secret of a device not opened", "device", d.ID, "err", err)
		return
	}
	d.Verifiers = mesh.NewVerifiers(d.ID, secret)
}
