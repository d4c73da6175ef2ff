package adminsvc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

func (s *Service) revertMember(ctx context.Context, tx *store.Tx, id mesh.MemberID, data []byte) error {
	then, err := codec.Decode[mesh.Member](data)
	if err != nil {
		return fmt.Errorf("admin: revert: %w: %w", err, mesh.ErrInvalid)
	}
	if err := state("member", then.State, mesh.MemberActive, mesh.MemberSuspended, mesh.MemberArchived); err != nil {
		return err
	}
	if then.State != mesh.MemberArchived {
		now, err := store.Get(tx, s.Store.Members, id)
		err = s.neverEnded(ctx, "member", string(id), then.Name, string(now.State), string(mesh.MemberArchived), err)
		if err != nil {
			return mesh.WithHint(err, "add a new member")
		}
	}
	if err := store.Revert(tx, s.Store.Members, id, data); err != nil {
		return err
	}
	return s.syncMember(tx, id)
}

func (s *Service) revertCell(tx *store.Tx, id mesh.CellID, data []byte) error {
	then, err := codec.Decode[mesh.Cell](data)
	if err != nil {
		return fmt.Errorf("admin: revert: %w: %w", err, mesh.ErrInvalid)
	}
	if err := state("cell", then.State, mesh.CellActive, mesh.CellCompromised, mesh.CellRetired); err != nil {
		return err
	}
	now, err := store.Get(tx, s.Store.Cells, id)
	if ignoreAbsent(err) != nil {
		return err
	}
	if err == nil {
		if then.State == mesh.CellActive && now.State == mesh.CellCompromised {
			if err := s.restoreCell(tx, &now); err != nil {
				return err
			}
		}
		data = keeping(data, now, "paths", "earlier")
	}
	if err == nil && then.CACert == now.CACert {
		data, then.CAKey = keeping(data, now, "caKey"), now.CAKey
	}
	if err := s.opens("cell", store.CellKeyPlace(id), then.CAKey); err != nil {
		return err
	}
	if err == nil && now.Suffix != then.Suffix {
		return fmt.Errorf("admin: revert: cell %s has another suffix now: %w", now.Name, mesh.ErrConflict)
	}
	for _, f := range then.Fallback {
		if err := there(tx, s.Store.Cells, "cell", f); err != nil {
			return err
		}
	}
	if err := store.Revert(tx, s.Store.Cells, id, data); err != nil {
		return err
	}
	return s.syncCell(tx, id)
}

func (s *Service) revertDevice(ctx context.Context, tx *store.Tx, id mesh.DeviceID, data []byte) error {
	then, err := codec.Decode[mesh.Device](data)
	if err != nil {
		return fmt.Errorf("admin: revert: %w: %w", err, mesh.ErrInvalid)
	}
	if err := state("device", then.State, mesh.DeviceActive, mesh.DeviceSuspended, mesh.DeviceRevoked); err != nil {
		return err
	}
	now, err := store.Get(tx, s.Store.Devices, id)
	if ignoreAbsent(err) != nil {
		return err
	}
	if err == nil { // what was replaced since, perhaps because others had it, stays so
		moved := now
		if err := s.move(tx, &moved, then.Assigned); err != nil {
			return err
		}
		data, then.Secret = keeping(data, moved, "secret", "verifiers", "subscription", "labels", "hiddenLabel", "trafficReset", "earlier"), now.Secret
	}
	if err := s.opens("device", store.DeviceSecretPlace(id), then.Secret); err != nil {
		return err
	}
	if then.State != mesh.DeviceRevoked {
		err = s.neverEnded(ctx, "device", string(id), then.Name, string(now.State), string(mesh.DeviceRevoked), err)
		if err != nil {
			return mesh.WithHint(err, "add a new device")
		}
	}
	if err := errors.Join(there(tx, s.Store.Members, "member", then.Member), there(tx, s.Store.Cells, "cell", then.Assigned.Cell)); err != nil {
		return err
	}
	if core := then.Assigned.Core; core != "" {
		c, err := store.Get(tx, s.Store.Cores, core)
		if ignoreAbsent(err) != nil {
			return err
		}
		if err != nil || c.Revoked || c.Cell != then.Assigned.Cell {
			return mesh.WithHint(fmt.Errorf("admin: revert: core %s, which the device was assigned to, is not there any more: %w", core, mesh.ErrConflict),
				"move the device to where it is to be: meshctl admin device set")
		}
	}
	if err := store.Revert(tx, s.Store.Devices, id, data); err != nil {
		return err
	}
	return s.sync(tx, id)
}

// neverEnded refuses to bring an object back that has come to its final state
// since: as it is now or, when it is gone (ErrNotFound), as far back as the audit
// log reaches.
func (s *Service) neverEnded(ctx context.Context, kind, id, name, now, final string, err error) error {
	ended := now == final
	if errors.Is(err, mesh.ErrNotFound) {
		ended, err = s.onRecord(ctx, kind+"/"+id, final)
	}
	if err != nil || !ended {
		return err
	}
	return fmt.Errorf("admin: revert: %s %s was %s since, which is final: %w", kind, name, final, mesh.ErrConflict)
}

// onRecord says whether the audit log knows the object in that state.
func (s *Service) onRecord(ctx context.Context, object, state string) (bool, error) {
	after := ""
	for {
		items, next, err := s.Store.Audit.Latest(ctx, after, maxPage)
		if err != nil {
			return false, err
		}
		for _, it := range items {
			if slices.ContainsFunc(it.Value.Changes, func(c mesh.Change) bool { return c.Object == object && c.After["state"] == state }) {
				return true, nil
			}
		}
		if after = next; after == "" {
			return false, nil
		}
	}
}

// revertCore takes over what operators own; the rest is what the core says now.
func (s *Service) revertCore(tx *store.Tx, id mesh.CoreID, data []byte) error {
	err := revertFields(tx, s.Store.Cores, id, data, func(now *mesh.Core, then mesh.Core) error {
		if err := stillRefused("core", now.Name, now.Revoked, then.Revoked); err != nil {
			return err
		}
		now.Name = then.Name
		if !now.Revoked {
			setDrain(now, then.Drain)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.syncTarget(tx, id)
}

// keeping is data with some members as they are now, those that are not there now
// left out. Of what is sealed the secret may be the same, and the data key another.
func keeping(data []byte, now any, members ...string) []byte {
	var then, is map[string]json.RawMessage
	stored, err := json.Marshal(now)
	if err != nil || json.Unmarshal(stored, &is) != nil || json.Unmarshal(data, &then) != nil {
		return data // what it is not, codec.Decode has said
	}
	same := true
	for _, m := range members {
		value, ok := is[m]
		switch was, had := then[m]; {
		case ok == had && bytes.Equal(value, was):
			continue
		case ok:
			then[m] = value
		default:
			delete(then, m)
		}
		same = false
	}
	if same {
		return data
	}
	out, err := json.Marshal(then)
	if err != nil {
		return data
	}
	return out
}

// opens refuses a secret that no data key of now opens: it could never be used,
// and what depends on it would fail later and elsewhere.
func (s *Service) opens(kind, place string, sealed mesh.Sealed) error {
	if sealed == "" {
		return nil
	}
	if _, err := s.Store.Unseal(place, sealed); err != nil {
		return mesh.WithHint(fmt.Errorf("admin: revert: the secret of the %s was sealed under a data key that has been replaced since (meshctl admin secrets rekey), so it is not brought back: %w", kind, mesh.ErrConflict),
			"make the change by hand, or take a commit from after the rekey")
	}
	return nil
}

// state refuses one that there is not.
func state[T ~string](kind string, have T, known ...T) error {
	if slices.Contains(known, have) {
		return nil
	}
	return fmt.Errorf("admin: revert: %s state %q: %w", kind, mesh.Quotable(string(have)), mesh.ErrInvalid)
}

// there wants an object that another one names.
func there[K ~string, V any](tx *store.Tx, c *store.Collection[K, V], kind string, id K) error {
	_, err := store.Get(tx, c, id)
	if !errors.Is(err, mesh.ErrNotFound) {
		return err
	}
	return mesh.WithHint(fmt.Errorf("admin: revert: it belongs to %s %s, which is not there any more: %w", kind, id, mesh.ErrConflict),
		fmt.Sprintf("bring that back first: meshctl admin backup revert --object %s/%s --at …", kind, id))
}
