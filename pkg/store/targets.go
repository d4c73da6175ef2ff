package store

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// SyncTarget writes the target of a core if it differs from what the core's
// object says; a core that does not exist has none. A revoked core keeps its
// target, so that entries that watch it see the state. protocols are the ALPN
// names of the relay, best first.
func SyncTarget(tx *Tx, m mesh.ID, id mesh.CoreID, protocols ...string) error {
	if err := syncTarget(tx, m, id, protocols); err != nil {
		return fmt.Errorf("store: target of %s: %w", mesh.Quotable(string(id)), err)
	}
	return nil
}

func syncTarget(tx *Tx, m mesh.ID, id mesh.CoreID, protocols []string) error {
	core, err := Get(tx, tx.s.Cores, id)
	if errors.Is(err, mesh.ErrNotFound) {
		if err := Delete(tx, tx.s.Targets, string(id)); !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	want := mesh.TargetOf(m, core, protocols...)
	_, err = Get(tx, tx.s.Targets, want.ID)
	if errors.Is(err, mesh.ErrNotFound) {
		return Create(tx, tx.s.Targets, want.ID, want)
	}
	if err != nil {
		return err
	}
	return Update(tx, tx.s.Targets, want.ID, func(t *mesh.Target) error {
		if !reflect.DeepEqual(*t, want) {
			*t = want
		}
		return nil
	})
}
