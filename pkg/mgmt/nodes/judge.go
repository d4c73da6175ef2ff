package nodes

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// actor is who makes the changes of this package, in audit.
const actor mesh.Actor = "system:nodes"

// judgeCores is one pass that brings the stored state of every core whose stream
// is here to what is observed. The leader judges those that are nowhere.
func (s *Service) judgeCores(ctx context.Context, full bool) (time.Time, error) {
	if full {
		s.pace.forget()
	}
	var again time.Time
	var errs []error
	for id, c := range s.view.cores.All() {
		se := s.hub.get(nodeOf(mesh.RoleCore, string(id)))
		if se == nil {
			continue
		}
		o, now := observe(se), time.Now()
		if reflect.DeepEqual(o.decide(c, now, s.times.Lost), c) {
			continue
		}
		if later := s.pace.wait(se.node, now); later != 0 {
			again = sooner(again, now.Add(later))
			continue
		}
		errs = append(errs, s.writeCore(ctx, id, func(*store.Tx) (observation, error) { return o, nil }))
	}
	errs = append(errs, s.noteVersions(ctx))
	return again, errors.Join(errs...)
}

// noteVersions keeps what entries' objects say of their version.
func (s *Service) noteVersions(ctx context.Context) error {
	var errs []error
	for id, e := range s.view.entries.All() {
		se := s.hub.get(nodeOf(mesh.RoleEntry, string(id)))
		if se == nil || se.hello.GetVersion() == e.Version || s.pace.wait(se.node, time.Now()) != 0 {
			continue
		}
		_, err := s.Store.Change(ctx, store.By{Actor: actor}, "entry version", func(tx *store.Tx) error {
			return store.Update(tx, s.Store.Entries, id, func(e *mesh.Entry) error {
				e.Version = se.hello.GetVersion()
				return nil
			})
		})
		if !errors.Is(err, mesh.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// nodeOf is role/id.
func nodeOf(r mesh.Role, id string) string { return string(r) + "/" + id }

// sooner is the earlier of two times; zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// writeCore decides again on what the store says inside the transaction, and
// writes core, target and event together.
func (s *Service) writeCore(ctx context.Context, id mesh.CoreID, observe func(*store.Tx) (observation, error)) error {
	var before, after mesh.Core
	_, err := s.Store.Change(ctx, store.By{Actor: actor}, "core.state", func(tx *store.Tx) error {
		o, err := observe(tx)
		if err != nil {
			return err
		}
		err = store.Update(tx, s.Store.Cores, id, func(c *mesh.Core) error {
			before = *c
			*c = o.decide(*c, time.Now(), s.times.Lost)
			after = *c
			return nil
		})
		if err != nil {
			return err
		}
		if e, ok := eventOf(before, after); ok {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		return store.SyncTarget(tx, s.Mesh, id, identity.ProtoRelay)
	})
	if errors.Is(err, mesh.ErrNotFound) {
		return nil // deleted meanwhile
	}
	if err == nil && before.State != after.State {
		s.Log.Info("core state changed", "core", id, "from", before.State, "to", after.State, "reason", after.Reason)
	}
	return err
}

// eventOf is what people should know of a core's change.
func eventOf(before, after mesh.Core) (mesh.Event, bool) {
	e := mesh.Event{Object: nodeOf(mesh.RoleCore, string(after.ID)), Cause: after.Reason, Severity: mesh.Warning}
	switch was, is := before.State, after.State; {
	case is == was && (is != mesh.CoreJoined || before.Reason == after.Reason):
		return e, false
	case is == mesh.CoreReady && was != mesh.CoreDraining:
		e.Type, e.Severity, e.Cause = mesh.EventCoreReady, mesh.Info, "it phones home and answers a dial-back"
	case is == mesh.CoreLost:
		e.Type, e.Advice = mesh.EventCoreLost, "look at the core's machine and its connection; clients use the other cores of the cell"
	case is == mesh.CoreJoined && after.Reason != "":
		e.Type, e.Advice = mesh.EventCoreUnreachable, "open the relay's port to the Internet, or have the core advertise the address under which it is reached"
	default:
		return e, false
	}
	return e, true
}
