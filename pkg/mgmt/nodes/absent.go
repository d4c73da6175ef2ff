package nodes

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// lookAgain is when a core that was long not seen, but that a lease names, is
// looked at again.
const lookAgain = 2 * time.Second

// judgeAbsent marks cores lost that have neither a lease nor a recent sign of
// life. It wants to run again when the next one may be.
func (l *leader) judgeAbsent(ctx context.Context, gone func(node string) bool) (time.Time, error) {
	s, now := l.s, time.Now()
	var again time.Time
	var errs []error
	status := s.view.status.All()
	for id, c := range s.view.cores.All() {
		node := nodeOf(mesh.RoleCore, string(id))
		if c.Revoked || c.State == mesh.CoreLost || c.State == mesh.CoreJoined || s.hub.get(node) != nil {
			continue
		}
		if at := l.seen(status[node]).Add(s.times.Lost + time.Millisecond); at.After(now) {
			again = sooner(again, at)
			continue
		}
		if !gone(node) {
			again = sooner(again, now.Add(lookAgain))
			continue
		}
		errs = append(errs, s.writeCore(ctx, id, func(tx *store.Tx) (observation, error) { return l.observe(tx, node) }))
	}
	return again, errors.Join(errs...)
}

func (l *leader) seen(st mesh.NodeStatus) time.Time { return later(st.LastSeen, l.since) }

// observe reads the status anew: the node may have turned up meanwhile.
func (l *leader) observe(tx *store.Tx, node string) (observation, error) {
	st, err := store.Get(tx, l.s.Store.Status, node)
	if errors.Is(err, mesh.ErrNotFound) {
		err = nil
	}
	return observation{Liveness: mesh.Liveness{LastSeen: l.seen(st)}}, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mendStatus notes that nodes are not connected whose server died without
// writing it. It wants to run again when the next status may be such a one.
func (l *leader) mendStatus(ctx context.Context, status map[string]mesh.NodeStatus, gone func(node string) bool) (time.Time, error) {
	var again time.Time
	now := time.Now()
	maps.DeleteFunc(status, func(node string, st mesh.NodeStatus) bool {
		switch at := st.LastSeen.Add(l.staleAfter()); {
		case !st.Connected || l.s.hub.get(node) != nil:
			return true
		case at.After(now):
			again = sooner(again, at)
			return true
		case !gone(node): // the lease may have yet to end
			again = sooner(again, now.Add(lookAgain))
			return true
		}
		return false
	})
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(status)), statusBatch) {
		_, err := l.s.Store.Update(ctx, func(tx *store.Tx) error {
			for _, node := range batch {
				err := store.Update(tx, l.s.Store.Status, node, func(st *mesh.NodeStatus) error {
					if reflect.DeepEqual(*st, status[node]) {
						st.Connected = false
					}
					return nil
				})
				if err != nil && !errors.Is(err, mesh.ErrNotFound) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return again, err
		}
		l.s.Log.Info("status of absent nodes mended", "count", len(batch))
	}
	return again, nil
}
