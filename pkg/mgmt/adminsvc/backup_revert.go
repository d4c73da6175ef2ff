package adminsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// errChecked leaves a transaction that was only to show what it would do.
var errChecked = errors.New("only checked")

// backupRevert brings one object back to what it was. What is final stays so: a
// revocation is never undone by a backup.
func (s *Service) backupRevert(ctx context.Context, req admin.BackupRevertRequest) (admin.BackupReverted, error) {
	kind, id, _ := strings.Cut(req.Object, "/")
	r, ok := s.revertible(id, req.JSON)[kind]
	if !ok || id == "" {
		return admin.BackupReverted{}, mesh.WithHint(fmt.Errorf("admin: revert %q: %w", mesh.Quotable(req.Object), mesh.ErrInvalid),
			"want KIND/ID with one of the kinds "+strings.Join(slices.Sorted(maps.Keys(s.revertible("", nil))), ", ")+
				"; what was issued, revoked or joined is not brought back")
	}
	if len(req.JSON) > codec.MaxSize || len(req.Commit) > 64 || strings.Trim(req.Commit, "0123456789abcdef") != "" {
		return admin.BackupReverted{}, fmt.Errorf("admin: revert %s: the object is too large, or the commit is not one: %w", req.Object, mesh.ErrInvalid)
	}
	action := "backup.revert"
	if req.Commit != "" {
		action += ":" + req.Commit[:min(12, len(req.Commit))]
	}
	out := admin.BackupReverted{Object: req.Object}
	defer s.Store.Sealing()()
	err := s.change(ctx, action, func(tx *store.Tx) (err error) {
		out, err = r.run(ctx, tx, req)
		return err
	})
	if errors.Is(err, errChecked) {
		err = nil
	}
	return out, err
}

// reverting is how objects of one kind are brought back.
type reverting struct {
	shown func(*store.Tx) (map[string]any, error)
	rev   func(*store.Tx) (store.Rev, error)
	// back writes the object and what follows from it.
	back func(context.Context, *store.Tx) error
}

func (r reverting) run(ctx context.Context, tx *store.Tx, req admin.BackupRevertRequest) (out admin.BackupReverted, err error) {
	out.Object = req.Object
	rev, err := r.rev(tx)
	if err != nil {
		return out, err
	}
	if out.Rev = int64(rev); !req.Check && out.Rev != req.IfRev {
		return out, mesh.WithHint(fmt.Errorf("admin: revert %s: it was changed since it was looked at: %w", req.Object, mesh.ErrConflict), "look again, then repeat")
	}
	if out.Before, err = r.shown(tx); err != nil {
		return out, err
	}
	if err := r.back(ctx, tx); err != nil {
		return out, err
	}
	if out.After, err = r.shown(tx); err != nil {
		return out, err
	}
	out.Same = reflect.DeepEqual(out.Before, out.After)
	if req.Check || out.Same {
		return out, errChecked
	}
	return out, nil
}

func revert[K ~string, V any](c *store.Collection[K, V], id string, back func(context.Context, *store.Tx) error) reverting {
	return reverting{
		shown: func(tx *store.Tx) (map[string]any, error) { return store.Shown(tx, c, K(id)) },
		rev:   func(tx *store.Tx) (store.Rev, error) { return store.RevOf(tx, c, K(id)) },
		back:  back,
	}
}

// revertible are the kinds of which an object can be brought back. Of nodes only
// what operators own: the rest is what the node says of itself now.
func (s *Service) revertible(id string, data json.RawMessage) map[string]reverting {
	return map[string]reverting{
		"member": revert(s.Store.Members, id, func(ctx context.Context, tx *store.Tx) error {
			return s.revertMember(ctx, tx, mesh.MemberID(id), data)
		}),
		"device": revert(s.Store.Devices, id, func(ctx context.Context, tx *store.Tx) error {
			return s.revertDevice(ctx, tx, mesh.DeviceID(id), data)
		}),
		"cell": revert(s.Store.Cells, id, func(_ context.Context, tx *store.Tx) error { return s.revertCell(tx, mesh.CellID(id), data) }),
		"core": revert(s.Store.Cores, id, func(_ context.Context, tx *store.Tx) error { return s.revertCore(tx, mesh.CoreID(id), data) }),
		"entry": revert(s.Store.Entries, id, func(_ context.Context, tx *store.Tx) error {
			return revertFields(tx, s.Store.Entries, mesh.EntryID(id), data, func(now *mesh.Entry, then mesh.Entry) error {
				now.Name = then.Name
				return stillRefused("entry", now.Name, now.Revoked, then.Revoked)
			})
		}),
		"admin": revert(s.Store.Admins, id, func(_ context.Context, tx *store.Tx) error {
			return revertFields(tx, s.Store.Admins, mesh.AdminID(id), data, func(now *mesh.Administrator, then mesh.Administrator) error {
				now.Name, now.Role, now.Suspended = then.Name, then.Role, then.Suspended
				return stillRefused("administrator", now.Name, now.Revoked, then.Revoked)
			})
		}),
		"config": revert(s.Store.Config, id, func(_ context.Context, tx *store.Tx) error {
			return revertFields(tx, s.Store.Config, id, data, revertConfig)
		}),
	}
}

// stillRefused says that a revocation stays.
func stillRefused(kind, name string, now, then bool) error {
	if !now || then {
		return nil
	}
	return mesh.WithHint(fmt.Errorf("admin: revert: %s %s was revoked since, which is final: %w", kind, name, mesh.ErrConflict),
		"let it join again with a new token")
}

// revertFields takes over what operators own of an object that is still there.
func revertFields[K ~string, V any](tx *store.Tx, c *store.Collection[K, V], id K, data []byte, take func(now *V, then V) error) error {
	then, err := codec.Decode[V](data)
	if err != nil {
		return fmt.Errorf("admin: revert: %w: %w", err, mesh.ErrInvalid)
	}
	err = store.Update(tx, c, id, func(now *V) error { return take(now, then) })
	if errors.Is(err, mesh.ErrNotFound) {
		return mesh.WithHint(err, "it was removed, and with it went its certificate: let it join again with a new token")
	}
	return err
}

// revertConfig leaves alone what is not set by hand.
func revertConfig(now *mesh.Config, then mesh.Config) error {
	now.AllowedAddresses, now.MgmtAddresses, now.EntryAddresses = then.AllowedAddresses, then.MgmtAddresses, then.EntryAddresses
	now.CertLife, now.RenewGrace, now.StaleIfError = then.CertLife, then.RenewGrace, then.StaleIfError
	now.Subscription, now.Labels = then.Subscription, then.Labels
	return validate(*now)
}
