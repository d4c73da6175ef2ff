package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// meters is one pass over what was moved: whether cells move what they usually do,
// and once an hour whether cores tell the same as entries.
func (w *watcher) meters(ctx context.Context, _ bool) (time.Time, error) {
	moved, err := w.l.s.Store.Traffic(ctx)
	if err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	return time.Time{}, errors.Join(w.look(ctx, moved.Cores, now), w.audit(ctx, moved.Cores, now))
}

// look compares what each cell moves with what is usual.
func (w *watcher) look(ctx context.Context, moved map[mesh.CoreID]mesh.Traffic, now time.Time) error {
	s := w.l.s
	sums := map[mesh.CellID]int64{}
	for id, c := range s.view.cores.All() {
		sums[c.Cell] += moved[id].Bytes()
	}
	used := map[mesh.CellID]bool{}
	for _, d := range s.view.devices.All() {
		used[d.Assigned.Cell] = true
	}
	known, _, err := s.Store.CellUsage.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	cells := s.view.cells.All()
	for id, c := range cells {
		u := known[id]
		u.Cell = id
		if sample(&u, sums[id], now) {
			errs = append(errs, w.keep(ctx, u))
		}
		switch {
		case c.State != mesh.CellActive || !used[id]:
			delete(w.trails, id)
			w.judgeTraffic(id, nil, u)
		case s.phoning(id).all == 0: // then there is no traffic for another reason
			delete(w.trails, id)
		default:
			w.trails[id] = w.trails[id].add(sums[id], now)
			w.judgeTraffic(id, w.trails[id], u)
		}
	}
	for id := range known {
		if _, ok := cells[id]; !ok {
			errs = append(errs, w.drop(ctx, id))
		}
	}
	s.wakes.cells.nudge()
	return errors.Join(errs...)
}

// judgeTraffic notes the evidence that a trail gives; nil ends what was noted.
func (w *watcher) judgeTraffic(id mesh.CellID, t trail, u mesh.CellUsage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	evidence := ""
	if t != nil {
		evidence = t.verdict(u, w.traffic[id])
	}
	w.traffic[id] = evidence
}

func (w *watcher) keep(ctx context.Context, u mesh.CellUsage) error {
	st := w.l.s.Store
	_, err := st.Update(ctx, func(tx *store.Tx) error {
		_, err := store.Get(tx, st.CellUsage, u.Cell)
		switch {
		case errors.Is(err, mesh.ErrNotFound):
			return store.Create(tx, st.CellUsage, u.Cell, u)
		case err != nil:
			return err
		}
		return store.Update(tx, st.CellUsage, u.Cell, func(v *mesh.CellUsage) error { *v = u; return nil })
	})
	return err
}

func (w *watcher) drop(ctx context.Context, id mesh.CellID) error {
	st := w.l.s.Store
	_, err := st.Update(ctx, func(tx *store.Tx) error { return ignoreAbsent(store.Delete(tx, st.CellUsage, id)) })
	return err
}

// auditEvery is how often cores and entries are compared.
const auditEvery = time.Hour

// audit compares what cores say that they moved with what entries say that they
// relayed. While an entry that is connected keeps no counts, as one of an earlier
// version, there is nothing to compare with.
func (w *watcher) audit(ctx context.Context, moved map[mesh.CoreID]mesh.Traffic, now time.Time) error {
	s := w.l.s
	it, err := s.Store.MeterAudit.Get(ctx, store.MeterAuditKey)
	absent := errors.Is(err, mesh.ErrNotFound)
	if err != nil && !absent {
		return err
	}
	before := it.Value
	if !absent && now.Sub(before.At) < auditEvery {
		return nil
	}
	relayed, _, err := s.Store.Relayed.List(ctx)
	if err != nil {
		return err
	}
	if err := w.foldGone(ctx, &before, relayed); err != nil {
		return err
	}
	next := mesh.MeterAudit{At: now.UTC(), Gone: before.Gone, Cores: map[mesh.CoreID]mesh.MeterPair{}}
	sums := relayedSums(next.Gone, relayed)
	var events []mesh.Event
	complete := !absent && w.allCount(relayed)
	for id := range s.view.cores.All() {
		pair := mesh.MeterPair{Metered: moved[id].Bytes(), Relayed: sums[id]}
		was, compared := before.Cores[id]
		if cause := drift(was, pair); complete && compared && cause != "" {
			events = append(events, driftEvent(id, cause, now.Sub(before.At)))
		}
		next.Cores[id] = pair
	}
	maps.DeleteFunc(next.Gone, func(id mesh.CoreID, _ int64) bool { _, ok := next.Cores[id]; return !ok })
	return w.keepAudit(ctx, next, events)
}

func relayedSums(gone map[mesh.CoreID]int64, all map[mesh.EntryID]mesh.EntryRelayed) map[mesh.CoreID]int64 {
	parts := []map[mesh.CoreID]int64{gone}
	for _, e := range all {
		parts = append(parts, e.Past, e.Now)
	}
	return sumOf(parts...)
}

func driftEvent(id mesh.CoreID, cause string, in time.Duration) mesh.Event {
	return mesh.Event{Type: mesh.EventMeterDrift, Severity: mesh.Warning, Object: nodeOf(mesh.RoleCore, string(id)),
		Cause:  fmt.Sprintf("in %v %s", in.Round(time.Minute), cause),
		Advice: "whoever runs the core may have changed what it counts; until it is clear why, do not go by its numbers, and drain or revoke it if they matter"}
}

// allCount says whether every connected entry keeps counts.
func (w *watcher) allCount(relayed map[mesh.EntryID]mesh.EntryRelayed) bool {
	status := w.l.s.view.status.All()
	for id := range w.l.s.view.entries.All() {
		if _, ok := relayed[id]; !ok && status[nodeOf(mesh.RoleEntry, string(id))].Connected {
			return false
		}
	}
	return true
}

// foldGone keeps what entries have relayed that are no longer part of the mesh, and
// drops their objects.
func (w *watcher) foldGone(ctx context.Context, a *mesh.MeterAudit, relayed map[mesh.EntryID]mesh.EntryRelayed) error {
	st := w.l.s.Store
	var gone []mesh.EntryID
	for id := range relayed {
		if _, ok := w.l.s.view.entries.Get(id); !ok {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	for _, id := range gone {
		sum := relayed[id]
		next := *a
		next.Gone = sumOf(a.Gone, sum.Past, sum.Now)
		_, err := st.Update(ctx, func(tx *store.Tx) error {
			if err := ignoreAbsent(store.Delete(tx, st.Relayed, id)); err != nil {
				return err
			}
			if err := ignoreAbsent(store.Delete(tx, st.Reach, id)); err != nil {
				return err
			}
			return putAudit(tx, st, next)
		})
		if err != nil {
			return err
		}
		*a = next
		delete(relayed, id)
	}
	return nil
}

func putAudit(tx *store.Tx, st *store.Store, a mesh.MeterAudit) error {
	_, err := store.Get(tx, st.MeterAudit, store.MeterAuditKey)
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return store.Create(tx, st.MeterAudit, store.MeterAuditKey, a)
	case err != nil:
		return err
	}
	return store.Update(tx, st.MeterAudit, store.MeterAuditKey, func(v *mesh.MeterAudit) error { *v = a; return nil })
}

func (w *watcher) keepAudit(ctx context.Context, a mesh.MeterAudit, events []mesh.Event) error {
	st := w.l.s.Store
	_, err := st.Update(ctx, func(tx *store.Tx) error {
		for _, e := range events {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		return putAudit(tx, st, a)
	})
	return err
}
