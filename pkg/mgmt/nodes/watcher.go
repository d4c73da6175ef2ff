package nodes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// watcher is the leader's watch over cells: whether clients get into those whose
// cores phone home. What it found is in the store, one object for each cell where
// something is wrong; what it keeps itself, the next leader sees again in half an
// hour.
type watcher struct {
	l *leader
	// trails are of the loop "meters" alone.
	trails map[mesh.CellID]trail
	// untried is since when no entry says anything of a cell that entries could
	// not reach; of the loop "cells" alone.
	untried map[mesh.CellID]time.Time

	mu sync.Mutex // guards what follows
	// traffic is the evidence by the last pass over traffic.
	traffic map[mesh.CellID]string
}

func newWatcher(l *leader) *watcher {
	w := &watcher{l: l, trails: map[mesh.CellID]trail{}, traffic: map[mesh.CellID]string{}, untried: map[mesh.CellID]time.Time{}}
	for id, was := range l.s.view.cellWatch.All() {
		w.traffic[id] = was.Traffic
	}
	return w
}

// pass is one pass that brings what is noted of each cell to what is seen. Servers
// have just lost a leader when it begins, and perhaps their entries.
func (w *watcher) pass(ctx context.Context, _ bool) (time.Time, error) {
	s, now := w.l.s, time.Now()
	if settled := w.l.since.Add(s.times.Unreachable); now.Before(settled) {
		return settled, nil
	}
	var again time.Time
	var errs []error
	watched, cells := s.view.cellWatch.All(), s.view.cells.All()
	for _, id := range cellsOf(cells, watched) {
		var before *mesh.CellWatch
		if was, ok := watched[id]; ok {
			before = &was
		}
		after, why, at := w.see(id, cells[id], before, now)
		again = sooner(again, at)
		if !sameWatch(before, after) {
			errs = append(errs, w.write(ctx, id, before, after, why))
		}
	}
	return again, errors.Join(errs...)
}

// cellsOf are those that are or were watched.
func cellsOf(cells map[mesh.CellID]mesh.Cell, watched map[mesh.CellID]mesh.CellWatch) []mesh.CellID {
	ids := slices.Collect(maps.Keys(watched))
	for id, c := range cells {
		if _, too := watched[id]; !too && c.State == mesh.CellActive {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// see is what is to be noted of a cell, and why there is nothing any more.
func (w *watcher) see(id mesh.CellID, c mesh.Cell, before *mesh.CellWatch, now time.Time) (after *mesh.CellWatch, why string, again time.Time) {
	if c.State != mesh.CellActive {
		return nil, "the cell is no longer in use", again
	}
	p, views := w.l.s.phoning(id), w.l.s.viewsOf(id)
	if p.all == 0 {
		return before, "", again // that its cores are away is told already
	}
	var entries string
	if before != nil {
		entries = before.Entries
	}
	wasOut := entries != ""
	if wasOut && len(views) == 0 {
		if entries, again = w.unheard(id, entries, now); entries == "" {
			why = "no entry has tried to reach it of late"
		}
	} else {
		delete(w.untried, id)
		entries, again = reachVerdict(p, views, wasOut, w.l.s.times.Unreachable, now)
	}
	if why == "" {
		why = "entries reach its cores again"
		if !wasOut {
			why = "there is traffic again"
		}
	}
	w.mu.Lock()
	traffic := w.traffic[id]
	w.mu.Unlock()
	return nextWatch(id, before, entries, traffic, now), why, again
}

// unheard keeps what was known of a cell of which no entry says anything any more,
// for a while.
func (w *watcher) unheard(id mesh.CellID, evidence string, now time.Time) (string, time.Time) {
	since, ok := w.untried[id]
	if !ok {
		since = now
		w.untried[id] = since
	}
	if end := since.Add(w.l.s.times.Quiet); now.Before(end) {
		return evidence, end
	}
	delete(w.untried, id)
	return "", time.Time{}
}

// phoning counts a cell's cores that phone home and are meant to serve.
func (s *Service) phoning(cell mesh.CellID) phoning {
	var p phoning
	status := s.view.status.All()
	for id, c := range s.view.cores.All() {
		if c.Cell != cell || c.Revoked || c.Drain || !c.EverReady || !status[nodeOf(mesh.RoleCore, string(id))].Connected {
			continue
		}
		p.all++
		if c.State == mesh.CoreReady {
			p.answered++
		}
	}
	return p
}

// viewsOf is what the connected entries say of a cell that have tried it of late.
func (s *Service) viewsOf(cell mesh.CellID) []entryView {
	var out []entryView
	status, reach := s.view.status.All(), s.view.reach.All()
	for id, e := range s.view.entries.All() {
		r, tried := reach[id].Cells[cell]
		if !tried || e.Revoked || !status[nodeOf(mesh.RoleEntry, string(id))].Connected {
			continue
		}
		v := entryView{name: e.Name, Reach: r, alone: len(reach[id].Cells) > 1}
		for _, other := range reach[id].Cells {
			v.alone = v.alone && other.Fails
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b entryView) int { return strings.Compare(a.name, b.name) })
	return out
}

// sameWatch says whether the same kinds of evidence are noted.
func sameWatch(a, b *mesh.CellWatch) bool {
	if a == nil || b == nil {
		return a == b
	}
	return (a.Entries == "") == (b.Entries == "") && (a.Traffic == "") == (b.Traffic == "")
}

// write notes what was seen, with the event if it is one, unless the store says
// something else by now than what was decided by.
func (w *watcher) write(ctx context.Context, id mesh.CellID, before, after *mesh.CellWatch, why string) error {
	st := w.l.s.Store
	_, err := st.Update(ctx, func(tx *store.Tx) error {
		have, err := store.Get(tx, st.CellWatch, id)
		absent := errors.Is(err, mesh.ErrNotFound)
		switch {
		case err != nil && !absent:
			return err
		case absent != (before == nil):
			return nil // the mirror is a moment behind, and wakes the next pass
		}
		if e, ok := watchEvent(before, after, why); ok {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		switch {
		case after == nil:
			return store.Delete(tx, st.CellWatch, id)
		case absent:
			return store.Create(tx, st.CellWatch, id, *after)
		}
		return store.Update(tx, st.CellWatch, id, func(v *mesh.CellWatch) error {
			after.Since = have.Since
			*v = *after
			return nil
		})
	})
	if err == nil && (before == nil || after == nil) {
		w.l.s.Log.Info("reach of a cell changed", "cell", id, "to", reachable(after))
	}
	return err
}

func reachable(w *mesh.CellWatch) string {
	if w != nil {
		return "unreachable"
	}
	return "reachable"
}
