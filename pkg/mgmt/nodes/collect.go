package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// State that comes from a backup does not know who was refused since. Until the
// nodes have said whom they refuse, such a mesh serves nobody: no node gets a
// configuration, a table or a revocation, entries look up nothing and go on with
// what they know, nobody enrolls or renews, and administrators come in by the
// socket alone.
//
//	restored ──every core and entry has handed over, or time is up──▶ collected
//
// Who comes later still hands over what it keeps, and that counts from then on.

// Collecting says whether the mesh waits for what its nodes know.
func (s *Service) Collecting() bool {
	select {
	case <-s.collected:
		return false
	default:
		return true
	}
}

// openUp is one pass that lets this server serve once the mesh has collected, and
// all that was taken back is in force here. The mirrors come to different moments,
// so the store is asked what there is.
func (s *Service) openUp(ctx context.Context, _ bool) (time.Time, error) {
	if !s.Collecting() || s.config().Restored.Collecting() {
		return time.Time{}, nil
	}
	all, _, err := s.Store.Revocations.List(ctx)
	if err != nil {
		return time.Time{}, err
	}
	known := s.revs.Load()
	for id := range all {
		if _, ok := known.records[id]; !ok && !known.bad[id] || s.Revocations.Revision() != known.rev {
			s.wakes.revoke.nudge()
			return time.Now().Add(20 * time.Millisecond), nil
		}
	}
	close(s.collected)
	for _, se := range s.hub.all() {
		nudge(se.wake)
	}
	return time.Time{}, nil
}

// collect returns once the mesh may be served; false says that ctx ended first.
func (s *Service) collect(ctx context.Context) bool {
	began := time.Now()
	back := control.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	var wg sync.WaitGroup
	defer wg.Wait()
	following, stop := context.WithCancel(ctx)
	defer stop()
	if s.config().Restored.Collecting() {
		s.Log.Info("collecting revocations from nodes", "took", s.config().Restored.Wait())
		for _, m := range []mirror{s.view.status, s.view.cores, s.view.entries, s.view.config} {
			wg.Go(func() { follow(following, m, s.wakes.collect) })
		}
	}
	for ctx.Err() == nil && s.config().Restored.Collecting() {
		silent, known := s.unheard()
		left := time.Until(began.Add(s.config().Restored.Wait()))
		if len(silent) > 0 && left > 0 {
			l := loop{wake: s.wakes.collect, settle: 10 * time.Millisecond}
			l.wait(ctx, time.Now().Add(left), 0)
			continue
		}
		if err := s.finishCollecting(ctx, silent, known); err != nil && ctx.Err() == nil {
			s.Log.Warn("pass failed", "unit", "collect", "err", err)
		}
		pause(ctx, back.Next())
	}
	select {
	case <-s.collected:
		return true
	case <-ctx.Done():
		return false
	}
}

// Heard says how many of the mesh's nodes have handed over what they keep.
func (s *Service) Heard() string {
	silent, known := s.unheard()
	return fmt.Sprintf("%d of %d nodes", known-len(silent), known)
}

// unheard are the nodes of the mesh that have not handed over, by name, and how
// many there are in all.
func (s *Service) unheard() (silent []string, known int) {
	epoch, status := s.Epoch(), s.view.status.All()
	add := func(r mesh.Role, id, name string, revoked bool) {
		if revoked {
			return
		}
		known++
		if status[nodeOf(r, id)].HandedEpoch < epoch {
			silent = append(silent, string(r)+" "+name)
		}
	}
	for id, c := range s.view.cores.All() {
		add(mesh.RoleCore, string(id), c.Name, c.Revoked)
	}
	for id, e := range s.view.entries.All() {
		gone := !e.Pod.Gone.IsZero() // the cluster has it no longer: it will not come
		add(mesh.RoleEntry, string(id), e.Name, e.Revoked || gone)
	}
	slices.Sort(silent)
	return silent, known
}

// finishCollecting brings what entries look up in line with what was taken back,
// and then lets the mesh be served.
func (s *Service) finishCollecting(ctx context.Context, silent []string, known int) error {
	if _, err := s.Store.ReconcileRoutes(ctx, time.Now()); err != nil {
		return err
	}
	if _, err := s.Store.ReconcileTargets(ctx, s.Mesh, identity.ProtoRelay); err != nil {
		return err
	}
	e := mesh.Event{Type: mesh.EventMeshCollected, Severity: mesh.Info, Object: "config/mesh", Time: time.Now().UTC(),
		Cause: fmt.Sprintf("the restored mesh has the revocations of %d of %d nodes, and serves", known-len(silent), known)}
	if len(silent) > 0 {
		e.Severity = mesh.Warning
		e.Cause += "; not heard: " + strings.Join(silent[:min(len(silent), 20)], ", ")
		e.Advice = "what only those refuse is not refused until they connect; look at what was revoked after the backup was made, and at `meshctl admin audit` for revocation.return"
	}
	_, err := s.Store.Change(ctx, store.By{Actor: restorer}, "mesh.collected", func(tx *store.Tx) error {
		err := store.Update(tx, s.Store.Config, store.ConfigKey, func(c *mesh.Config) error {
			if !c.Restored.Collecting() {
				return errNothing // and the mirror is a moment behind
			}
			c.Restored.Collected = e.Time
			return nil
		})
		if err != nil {
			return err
		}
		return tx.Event(e)
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	if err == nil {
		s.Log.Info("revocations collected", "count", known-len(silent), "open", len(silent))
	}
	return err
}
