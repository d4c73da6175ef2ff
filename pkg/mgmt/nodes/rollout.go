package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// rollouts is one pass that brings each group's roll-out on. It wants to run
// again when a canary has had its time, or a path ends.
func (l *leader) rollouts(ctx context.Context, _ bool) (time.Time, error) {
	v, now := l.s.view, time.Now()
	wants := wantedConfigs(v.cells.All(), l.s.config(), l.s.own.Load().forEgress(), now)
	groups := groupsOf(v.cores.All(), v.entries.All(), v.status.All())
	have := v.rollouts.All()
	// Above all that nodes may have from a version without roll-outs.
	rev := int64(max(v.cells.Rev(), v.cores.Rev(), v.entries.Rev(), v.config.Rev(), v.rollouts.Rev()))
	again := nextPathEnd(v.cells.All(), now)
	var errs []error
	for _, group := range slices.Sorted(maps.Keys(wants)) {
		next := func(r mesh.Rollout) mesh.Rollout {
			r.Group = group
			return r.Next(wants[group], groups[group], rev, time.Now().UTC(), l.s.times.Trial)
		}
		r := have[group]
		if n := next(r); !reflect.DeepEqual(n, r) {
			var err error
			r, err = l.writeRollout(ctx, group, next)
			errs = append(errs, err)
		}
		again = sooner(again, trialEnds(r, l.s.times.Trial))
	}
	for group := range have {
		if _, wanted := wants[group]; !wanted {
			errs = append(errs, l.dropRollout(ctx, mesh.CellID(group)))
		}
	}
	return again, errors.Join(errs...)
}

// writeRollout decides again on what the store says inside the transaction.
func (l *leader) writeRollout(ctx context.Context, group string, next func(mesh.Rollout) mesh.Rollout) (mesh.Rollout, error) {
	s := l.s
	var before, after mesh.Rollout
	_, err := s.Store.Update(ctx, func(tx *store.Tx) (err error) {
		before, err = store.Get(tx, s.Store.Rollouts, group)
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		after = next(before)
		if e, ok := parkedEvent(before, after); ok {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		if before.Group == "" {
			return store.Create(tx, s.Store.Rollouts, group, after)
		}
		return store.Update(tx, s.Store.Rollouts, group, func(r *mesh.Rollout) error { *r = after; return nil })
	})
	if err == nil && !reflect.DeepEqual(before, after) {
		s.Log.Info("configuration rolled on", "kind", group, "running", after.Running.Revision, "revision", after.Trial.Revision, "node", after.Canary, "reason", after.Reason)
	}
	return after, err
}

// parkedEvent tells people of a configuration that was given up.
func parkedEvent(before, after mesh.Rollout) (mesh.Event, bool) {
	if after.Parked.Revision == 0 || after.Parked.Revision == before.Parked.Revision {
		return mesh.Event{}, false
	}
	return mesh.Event{
		Type: mesh.EventConfigRefused, Severity: mesh.Warning, Object: before.Canary,
		Cause:  fmt.Sprintf("configuration %d of %s is parked: %s", after.Parked.Revision, after.Group, after.Reason),
		Advice: "all nodes go on with what ran before; change the configuration, or mend the node and then change it back and forth",
	}, true
}

// dropRollout forgets the roll-out of a cell that is gone.
func (l *leader) dropRollout(ctx context.Context, id mesh.CellID) error {
	_, err := l.s.Store.Update(ctx, func(tx *store.Tx) error {
		_, err := store.Get(tx, l.s.Store.Cells, id)
		if !errors.Is(err, mesh.ErrNotFound) {
			return err // it is back, or just came
		}
		return store.Delete(tx, l.s.Store.Rollouts, string(id))
	})
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	return err
}
