package nodes

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Entries report how their connections to cores go. The server that holds an
// entry's stream judges by that which cells can be reached through it, and writes
// its judgement when that changes:
//
//	no attempt ──▶ reaches, or fails ──none for Quiet──▶ not judged
//
// What all entries say of a cell together, the leader judges; see cellwatch.go.

// dials is what one entry reported on its present stream. Of its session alone.
type dials map[mesh.CoreID]coreDials

// coreDials is how attempts at one core went last.
type coreDials struct {
	fails bool
	since time.Time // of that
	last  time.Time // when there was an attempt
	fault mesh.DialFault
}

// note takes a report's results, of cores that exist.
func (d dials) note(results []*controlpb.DialResult, exists func(mesh.CoreID) bool, now time.Time) {
	for _, r := range results {
		id := mesh.CoreID(r.GetCore())
		if !exists(id) || r.GetSucceeded() <= 0 && r.GetFailed() <= 0 {
			continue
		}
		was, tried := d[id]
		is := coreDials{fails: r.GetSucceeded() <= 0, since: was.since, last: now}
		if !tried || was.fails != is.fails {
			is.since = now
		}
		if is.fails {
			is.fault = mesh.ParseDialFault(r.GetFault())
		}
		d[id] = is
	}
}

// judge says how connections to each cell go, and forgets cores of which nothing
// was heard for a while. It holds until the time it returns, if nothing is reported.
func (d dials) judge(cellOf func(mesh.CoreID) (mesh.CellID, bool), quiet time.Duration, now time.Time) (out map[mesh.CellID]mesh.Reach, until time.Time) {
	out = map[mesh.CellID]mesh.Reach{}
	for id, c := range d {
		cell, known := cellOf(id)
		if !known || now.Sub(c.last) >= quiet {
			delete(d, id)
			continue
		}
		until = sooner(until, c.last.Add(quiet))
		out[cell] = withCore(out[cell], c)
	}
	return out, until
}

// withCore adds a core: a cell is reached since its first core is, and is not since
// its last one is not.
func withCore(r mesh.Reach, c coreDials) mesh.Reach {
	first := r.Cores == 0
	r.Cores++
	switch {
	case first, r.Fails && !c.fails:
		r.Fails, r.Since, r.Fault = c.fails, c.since, c.fault
	case r.Fails && c.since.After(r.Since):
		r.Since, r.Fault = c.since, c.fault
	case !r.Fails && !c.fails && c.since.Before(r.Since):
		r.Since = c.since
	}
	return r
}

// dialled notes what an entry reports about cores.
func (s *Service) dialled(se *session, r *controlpb.Report) {
	if len(r.GetDials()) == 0 {
		return
	}
	exists := func(id mesh.CoreID) bool { _, ok := s.view.cores.Get(id); return ok }
	se.mu.Lock()
	if se.dials == nil {
		se.dials = dials{}
	}
	se.dials.note(r.GetDials(), exists, time.Now())
	se.mu.Unlock()
	s.wakes.reach.nudge()
}

func (s *Service) cellOf(id mesh.CoreID) (mesh.CellID, bool) {
	c, ok := s.view.cores.Get(id)
	return c.Cell, ok && !c.Revoked
}

// judgeReach is one pass that writes how connections from the entries go whose
// streams are here, where that is another than before.
func (s *Service) judgeReach(ctx context.Context, _ bool) (time.Time, error) {
	var again time.Time
	var errs []error
	for _, se := range s.hub.all() {
		if se.peer.Role != mesh.RoleEntry {
			continue
		}
		id, now := mesh.EntryID(se.peer.ID), time.Now()
		se.mu.Lock()
		cells, until := se.dials.judge(s.cellOf, s.times.Quiet, now)
		se.mu.Unlock()
		again = sooner(again, until)
		was, _ := s.view.reach.Get(id)
		young := se.since.Add(s.times.Quiet)
		if now.Before(young) { // what the server before this one knew may still be so
			again = sooner(again, young)
			for cell, r := range was.Cells {
				if _, judged := cells[cell]; !judged {
					cells[cell] = r
				}
			}
		}
		if !sameReach(was.Cells, cells) {
			errs = append(errs, s.writeReach(ctx, id, cells))
		}
	}
	return again, errors.Join(errs...)
}

// sameReach says whether the judgement is the same.
func sameReach(a, b map[mesh.CellID]mesh.Reach) bool {
	return maps.EqualFunc(a, b, func(a, b mesh.Reach) bool { return a.Fails == b.Fails })
}

func (s *Service) writeReach(ctx context.Context, id mesh.EntryID, cells map[mesh.CellID]mesh.Reach) error {
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		was, err := store.Get(tx, s.Store.Reach, id)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		next := mesh.EntryReach{Entry: id, Cells: maps.Clone(cells)}
		for cell, r := range next.Cells {
			if old, ok := was.Cells[cell]; ok && old.Fails == r.Fails && old.Since.Before(r.Since) {
				r.Since = old.Since
				next.Cells[cell] = r
			}
		}
		if absent {
			return store.Create(tx, s.Store.Reach, id, next)
		}
		return store.Update(tx, s.Store.Reach, id, func(v *mesh.EntryReach) error { *v = next; return nil })
	})
	return err
}
