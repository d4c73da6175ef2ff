package nodes

import (
	"context"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// plan is what every node should have: configurations, and the device table of
// each cell. It never changes.
type plan struct {
	asOf   int64             // moment of the store that the tables reflect
	offers map[string]*offer // by group
	seats  map[mesh.CoreID]seat
	tables map[mesh.CellID]*table
}

// seat is a core's place in the plan.
type seat struct {
	cell   mesh.CellID
	drain  bool
	served bool // it gets its cell's table
}

// input is what a plan is worked out from.
type input struct {
	people   *store.People
	rev      int64 // moment of people
	cores    map[mesh.CoreID]mesh.Core
	rollouts map[string]mesh.Rollout
}

// readPeople reads the store and not the mirrors: those come to different
// moments, and the revision of a table promises that nothing before it is
// missing.
func readPeople(ctx context.Context, s *store.Store) (p *store.People, rev int64, err error) {
	at, err := s.View(ctx, func(tx *store.Tx) (err error) {
		p, err = store.ReadPeople(tx)
		return err
	})
	return p, int64(at), err
}

// next works out the plan that follows p. What is the same stays the same
// object, with the revision at which it became so.
func (p *plan) next(now time.Time, in input) *plan {
	if p == nil {
		p = &plan{}
	}
	n := &plan{
		asOf:   max(p.asOf, in.rev),
		offers: map[string]*offer{},
		seats:  map[mesh.CoreID]seat{},
		tables: p.nextTables(now, in.people, in.rev),
	}
	for group, r := range in.rollouts {
		n.offers[group] = newOffer(r)
	}
	for id, c := range in.cores {
		if !c.Revoked {
			n.seats[id] = seat{cell: c.Cell, drain: c.Drain, served: c.EverReady}
		}
	}
	return n
}

// wants is what one node should have of p, which may be nil.
func (p *plan) wants(id mesh.Identity) want {
	switch {
	case p == nil:
		return want{}
	case id.Role == mesh.RoleEntry:
		return want{config: p.offers[mesh.EntriesGroup].of(id.Node(), false)}
	}
	at, ok := p.seats[mesh.CoreID(id.ID)]
	if !ok {
		return want{}
	}
	w := want{config: p.offers[string(at.cell)].of(id.Node(), at.drain), asOf: p.asOf}
	if at.served {
		w.table = p.tables[at.cell]
	}
	return w
}

// nextTables works out what the cores of each cell are to know. The end of service
// cores know as a limit: a table does not change because time passes.
func (p *plan) nextTables(now time.Time, people *store.People, rev int64) map[mesh.CellID]*table {
	need := map[mesh.CellID]int64{}
	devices := map[mesh.CellID]map[string]*controlpb.Device{}
	for id, c := range people.Cells {
		need[id], devices[id] = int64(c.Rev), map[string]*controlpb.Device{}
	}
	for id, d := range people.Devices {
		if own := d.Value.Assigned.Cell; devices[own] != nil {
			need[own] = max(need[own], int64(d.Rev), int64(people.Members[d.Value.Member].Rev))
		}
		for _, at := range people.Places(id, time.Time{}) {
			if at.Ended(now) { // cores know nothing of that
				continue
			}
			need[at.Cell.ID] = max(need[at.Cell.ID], int64(at.Since))
			devices[at.Cell.ID][string(id)] = deviceMessage(d.Value.ForCore(at.Placement, now))
		}
	}
	out := map[mesh.CellID]*table{}
	for id := range devices {
		out[id] = p.tables[id].next(rev, need[id], devices[id])
	}
	return out
}
