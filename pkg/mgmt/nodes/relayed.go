package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// relays is what entries said that they relayed and is not written yet.
type relays struct {
	mu    sync.Mutex // guards dirty
	dirty map[mesh.EntryID]*relayedBy
}

// relayedBy are the counts of one start of an entry.
type relayedBy struct {
	meter  string
	start  int64
	counts map[mesh.CoreID]int64
}

// add notes an entry's report; one without counts tells that it keeps some.
func (r *relays) add(id mesh.EntryID, h *controlpb.Hello, list []*controlpb.CoreTraffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirty == nil {
		r.dirty = map[mesh.EntryID]*relayedBy{}
	}
	by := r.dirty[id]
	if meter := meterOf(h); by == nil || by.meter != meter {
		by = &relayedBy{meter: meter, start: h.GetStart(), counts: map[mesh.CoreID]int64{}}
		r.dirty[id] = by
	}
	for _, c := range list {
		core := mesh.CoreID(c.GetCore())
		by.counts[core] = max(by.counts[core], trafficSum(c))
	}
}

// trafficSum is what a node claims, nothing below zero.
func trafficSum(c *controlpb.CoreTraffic) int64 {
	return mesh.Traffic{Up: max(0, c.GetUp()), Down: max(0, c.GetDown())}.Bytes()
}

func (r *relays) take() map[mesh.EntryID]*relayedBy {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.dirty
	r.dirty = nil
	return out
}

// putBack brings back what could not be written, unless there is something later.
func (r *relays) putBack(id mesh.EntryID, by *relayedBy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now := r.dirty[id]; {
	case now == nil && r.dirty == nil:
		r.dirty = map[mesh.EntryID]*relayedBy{id: by}
	case now == nil:
		r.dirty[id] = by
	case now.meter == by.meter:
		for core, n := range by.counts {
			now.counts[core] = max(now.counts[core], n)
		}
	}
}

// relayed notes what an entry says that it relayed. That it keeps such counts is
// noted with the first report of a stream.
func (s *Service) relayed(se *session, r *controlpb.Report) {
	if !r.GetCounts() || len(r.GetRelayed()) == 0 && se.counted {
		return
	}
	se.counted = true
	s.relays.add(mesh.EntryID(se.peer.ID), se.hello, r.GetRelayed())
}

// flushRelayed is one pass that writes what entries said that they relayed.
func (s *Service) flushRelayed(ctx context.Context, _ bool) (time.Time, error) {
	var errs []error
	for id, by := range s.relays.take() {
		if err := s.writeRelayed(ctx, id, by); err != nil {
			s.relays.putBack(id, by)
			errs = append(errs, fmt.Errorf("nodes: note what entry %s relayed: %w", id, err))
		}
	}
	return time.Time{}, errors.Join(errs...)
}

func (s *Service) writeRelayed(ctx context.Context, id mesh.EntryID, by *relayedBy) error {
	if _, ok := s.view.entries.Get(id); !ok {
		return nil
	}
	gone := func(core mesh.CoreID, _ int64) bool { _, ok := s.view.cores.Get(core); return !ok }
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		has, err := store.Get(tx, s.Store.Relayed, id)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		has.Entry = id
		if !raise(&has, by) {
			return nil
		}
		maps.DeleteFunc(has.Now, gone)
		maps.DeleteFunc(has.Past, gone)
		if absent {
			return store.Create(tx, s.Store.Relayed, id, has)
		}
		return store.Update(tx, s.Store.Relayed, id, func(v *mesh.EntryRelayed) error { *v = has; return nil })
	})
	return err
}

// raise takes counts of one start of an entry, unless a later one is known; what
// an earlier one had relayed is kept.
func raise(e *mesh.EntryRelayed, by *relayedBy) bool {
	if e.Meter != by.meter {
		if by.start < e.Start {
			return false // another server heard from a later start already
		}
		e.Past, e.Now = sumOf(e.Past, e.Now), nil
		e.Meter, e.Start = by.meter, by.start
	}
	e.Now = sumOf(e.Now)
	for id, n := range by.counts {
		e.Now[id] = max(e.Now[id], n)
	}
	return true
}

// sumOf adds up what was relayed through each core.
func sumOf(all ...map[mesh.CoreID]int64) map[mesh.CoreID]int64 {
	out := map[mesh.CoreID]int64{}
	for _, m := range all {
		for id, n := range m {
			out[id] += n
		}
	}
	return out
}
