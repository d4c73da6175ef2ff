package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ReconcileRoutes makes all routes what they are to be at now, and returns how
// many devices' routes it changed. It reads the state of one moment, decides,
// and decides again inside each write. It also removes routes that no device
// accounts for. A device whose routes cannot be worked out keeps those it has
// and does not hold up the others; its error is part of what is returned.
func (s *Store) ReconcileRoutes(ctx context.Context, now time.Time) (changed int, err error) {
	var todo []work
	var bad []error
	if _, err := s.View(ctx, func(tx *Tx) (err error) {
		todo, bad, err = outOfStep(tx, now)
		return err
	}); err != nil {
		return 0, fmt.Errorf("store: reconcile routes: %w", err)
	}
	for len(todo) > 0 {
		var n int
		var refused []error
		if _, err := s.Update(ctx, func(tx *Tx) (err error) {
			n, refused, err = syncWork(tx, todo, now)
			return err
		}); err != nil {
			return changed, fmt.Errorf("store: reconcile routes: %w", err)
		}
		changed += n - len(refused)
		bad = append(bad, refused...)
		todo = todo[n:]
	}
	if err := errors.Join(bad...); err != nil {
		return changed, fmt.Errorf("store: reconcile routes: %w", err)
	}
	return changed, nil
}

// syncWork does what fits into one transaction, at least one, and returns how
// much that is. What one device got half-way is taken back when it fails.
func syncWork(tx *Tx, todo []work, now time.Time) (n int, refused []error, err error) {
	for _, w := range todo {
		if n > 0 && tx.size()+routeOps+len(w.names) > batchOps {
			break
		}
		before := maps.Clone(tx.writes)
		if err := syncRoutes(tx, w.device, now, w.names...); err != nil {
			if errors.Is(err, mesh.ErrUnavailable) || errors.Is(err, errStale) {
				return n, nil, err
			}
			tx.writes = before
			refused = append(refused, fmt.Errorf("routes of %s: %w", w.device, err))
		}
		n++
	}
	return n, refused, nil
}

// work is a device whose routes are to be written.
type work struct {
	device mesh.DeviceID
	names  []mesh.ServerName // of routes that name it, whether or not its index knows them
}

func outOfStep(tx *Tx, now time.Time) (todo []work, bad []error, err error) {
	people, err := ReadPeople(tx)
	if err != nil {
		return nil, nil, err
	}
	routes, err := List(tx, tx.s.Routes)
	if err != nil {
		return nil, nil, err
	}
	held, err := indexedRoutes(tx)
	if err != nil {
		return nil, nil, err
	}
	byDevice := map[mesh.DeviceID]map[mesh.ServerName]mesh.Route{}
	of := func(id mesh.DeviceID) map[mesh.ServerName]mesh.Route {
		if byDevice[id] == nil {
			byDevice[id] = map[mesh.ServerName]mesh.Route{}
		}
		return byDevice[id]
	}
	for n, r := range routes {
		if !r.OfService() {
			of(r.Device)[n] = r
		}
	}
	for id := range held {
		of(id)
	}
	for id := range people.Devices {
		of(id)
	}
	for _, id := range slices.Sorted(maps.Keys(byDevice)) {
		want, err := wantedRoutes(tx, people, id, now)
		if err != nil {
			bad = append(bad, fmt.Errorf("routes of %s: %w", id, err))
			continue
		}
		names := slices.Sorted(maps.Keys(byDevice[id]))
		if len(want) != len(byDevice[id]) || !slices.Equal(names, held[id]) ||
			(len(want) > 0 && !reflect.DeepEqual(want, byDevice[id])) {
			todo = append(todo, work{id, names})
		}
	}
	return todo, bad, nil
}

func indexedRoutes(tx *Tx) (map[mesh.DeviceID][]mesh.ServerName, error) {
	prefix := namesPrefix(folderRoutes)
	entries, err := tx.list(prefix, false)
	if err != nil {
		return nil, err
	}
	out := make(map[mesh.DeviceID][]mesh.ServerName, len(entries))
	for _, e := range entries {
		id := mesh.DeviceID(strings.TrimPrefix(e.key, prefix))
		if out[id], err = heldRoutes(tx, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReconcileTargets makes the targets of all cores what they are to be, and
// returns how many it looked into again. Targets of no core are removed.
func (s *Store) ReconcileTargets(ctx context.Context, m mesh.ID, protocols ...string) (int, error) {
	var todo []mesh.CoreID
	if _, err := s.View(ctx, func(tx *Tx) (err error) {
		todo, err = targetsOutOfStep(tx, m, protocols)
		return err
	}); err != nil {
		return 0, fmt.Errorf("store: reconcile targets: %w", err)
	}
	for batch := range slices.Chunk(todo, batchOps/4) {
		_, err := s.Update(ctx, func(tx *Tx) error {
			for _, id := range batch {
				if err := SyncTarget(tx, m, id, protocols...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("store: reconcile targets: %w", err)
		}
	}
	return len(todo), nil
}

func targetsOutOfStep(tx *Tx, m mesh.ID, protocols []string) ([]mesh.CoreID, error) {
	cores, err := List(tx, tx.s.Cores)
	if err != nil {
		return nil, err
	}
	targets, err := List(tx, tx.s.Targets)
	if err != nil {
		return nil, err
	}
	var todo []mesh.CoreID
	for id, c := range cores {
		if have, ok := targets[string(id)]; !ok || !reflect.DeepEqual(have, mesh.TargetOf(m, c, protocols...)) {
			todo = append(todo, id)
		}
	}
	for id, t := range targets {
		if _, ok := cores[mesh.CoreID(id)]; !ok && t.Kind != mesh.HopMgmt {
			todo = append(todo, mesh.CoreID(id))
		}
	}
	slices.Sort(todo)
	return todo, nil
}
