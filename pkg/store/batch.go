package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// routeOps is how many writes and conditions the routes of one device may need:
// two labels, and two more after a move, with their index.
const routeOps = 6

// batchOps bounds what routes may take of a transaction; the rest is for the
// change that causes them, its labels, its audit record and events.
const batchOps = maxOps - 30

// SyncMember is SyncRoutes for the devices of a member, as many as fit in the
// transaction. It returns false when some did not fit: the reconciler does the
// rest.
func SyncMember(tx *Tx, id mesh.MemberID, now time.Time) (all bool, err error) {
	ids, err := DevicesOf(tx, id)
	if err != nil {
		return false, err
	}
	return syncSome(tx, ids, now)
}

// SyncCell is SyncRoutes for the devices of a cell, after the cell or one of its
// cores changed, as many as fit. It returns false when some did not fit: the
// reconciler does the rest.
func SyncCell(tx *Tx, id mesh.CellID, now time.Time) (all bool, err error) {
	// The commit does not depend on the list: who adds a device meanwhile reads
	// the cell and its cores, and so notices this change.
	entries, err := tx.list(tx.s.Devices.prefix(), false)
	if err != nil {
		return false, err
	}
	var ids []mesh.DeviceID
	for _, e := range entries {
		d, err := tx.s.Devices.decode([]byte(e.key), e.data)
		if err != nil {
			return false, err
		}
		if d.Assigned.Cell == id {
			ids = append(ids, d.ID)
		}
	}
	return syncSome(tx, ids, now)
}

// DevicesOf returns the ids of a member's devices, without reading all devices.
func DevicesOf(tx *Tx, id mesh.MemberID) ([]mesh.DeviceID, error) {
	held, err := tx.holders(deviceNames(id))
	if err != nil {
		return nil, err
	}
	ids := make([]mesh.DeviceID, len(held))
	for i, h := range held {
		ids[i] = mesh.DeviceID(h.ID)
	}
	return ids, nil
}

func syncSome(tx *Tx, ids []mesh.DeviceID, now time.Time) (all bool, err error) {
	for _, id := range ids {
		if tx.size()+routeOps > batchOps {
			return false, nil
		}
		if err := SyncRoutes(tx, id, now); err != nil {
			return false, err
		}
	}
	return true, nil
}

// size is how much of the transaction is used: writes or conditions, whichever
// are more.
func (tx *Tx) size() int { return max(len(tx.writes), len(tx.must)+2*len(tx.spans)) }

// ReconcileRoutes makes all routes what they are to be at now, and returns how
// many devices' routes it changed. It reads the state of one moment, decides,
// and decides again inside each write. It also removes routes that no device
// accounts for.
func (s *Store) ReconcileRoutes(ctx context.Context, now time.Time) (changed int, err error) {
	var todo []work
	if _, err := s.View(ctx, func(tx *Tx) (err error) {
		todo, err = outOfStep(tx, now)
		return err
	}); err != nil {
		return 0, fmt.Errorf("store: reconcile routes: %w", err)
	}
	for len(todo) > 0 {
		n := 0
		if _, err := s.Update(ctx, func(tx *Tx) error {
			n, err = syncWork(tx, todo, now)
			return err
		}); err != nil {
			return changed, fmt.Errorf("store: reconcile routes: %w", err)
		}
		changed += n
		todo = todo[n:]
	}
	return changed, nil
}

// syncWork does what fits into one transaction, at least one, and returns how
// much that is.
func syncWork(tx *Tx, todo []work, now time.Time) (n int, err error) {
	for _, w := range todo {
		if n > 0 && tx.size()+routeOps+len(w.names) > batchOps {
			break
		}
		if err := syncRoutes(tx, w.device, now, w.names...); err != nil {
			return n, fmt.Errorf("routes of %s: %w", w.device, err)
		}
		n++
	}
	return n, nil
}

// work is a device whose routes are to be written.
type work struct {
	device mesh.DeviceID
	names  []mesh.ServerName // of routes that name it, whether or not its index knows them
}

func outOfStep(tx *Tx, now time.Time) ([]work, error) {
	if err := tx.preload(); err != nil {
		return nil, err
	}
	routes, err := List(tx, tx.s.Routes)
	if err != nil {
		return nil, err
	}
	held, err := indexedRoutes(tx)
	if err != nil {
		return nil, err
	}
	byDevice := map[mesh.DeviceID]map[mesh.ServerName]mesh.Route{}
	of := func(id mesh.DeviceID) map[mesh.ServerName]mesh.Route {
		if byDevice[id] == nil {
			byDevice[id] = map[mesh.ServerName]mesh.Route{}
		}
		return byDevice[id]
	}
	for n, r := range routes {
		of(r.Device)[n] = r
	}
	for id := range held {
		of(id)
	}
	devices, err := List(tx, tx.s.Devices)
	if err != nil {
		return nil, err
	}
	for id := range devices {
		of(id)
	}
	var todo []work
	for _, id := range slices.Sorted(maps.Keys(byDevice)) {
		want, err := wantedRoutes(tx, id, now)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", id, err)
		}
		names := slices.Sorted(maps.Keys(byDevice[id]))
		if len(want) != len(byDevice[id]) || !slices.Equal(names, held[id]) ||
			(len(want) > 0 && !reflect.DeepEqual(want, byDevice[id])) {
			todo = append(todo, work{id, names})
		}
	}
	return todo, nil
}

// preload lists what the decision reads, so that it reads no more by key.
func (tx *Tx) preload() error {
	for _, folder := range []string{folderMembers, folderDevices, folderCells, folderRoutes} {
		if _, err := tx.list(folderPrefix(folder), false); err != nil {
			return err
		}
	}
	return nil
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
	for id := range targets {
		if _, ok := cores[mesh.CoreID(id)]; !ok {
			todo = append(todo, mesh.CoreID(id))
		}
	}
	slices.Sort(todo)
	return todo, nil
}
