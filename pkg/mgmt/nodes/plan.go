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
	people
	cores    map[mesh.CoreID]mesh.Core
	rollouts map[string]mesh.Rollout
}

// people is who is to be served where, all of it as of one moment.
type people struct {
	rev     int64
	members map[mesh.MemberID]store.Item[mesh.Member]
	devices map[mesh.DeviceID]store.Item[mesh.Device]
	cells   map[mesh.CellID]store.Item[mesh.Cell]
}

// readPeople reads the store and not the mirrors: those come to different
// moments, and the revision of a table promises that nothing before it is
// missing.
func readPeople(ctx context.Context, s *store.Store) (people, error) {
	var p people
	rev, err := s.View(ctx, func(tx *store.Tx) (err error) {
		if p.members, err = items(tx, s.Members); err != nil {
			return err
		}
		if p.devices, err = items(tx, s.Devices); err != nil {
			return err
		}
		p.cells, err = items(tx, s.Cells)
		return err
	})
	p.rev = int64(rev)
	return p, err
}

func items[K ~string, V any](tx *store.Tx, c *store.Collection[K, V]) (map[K]store.Item[V], error) {
	all, err := store.List(tx, c)
	if err != nil {
		return nil, err
	}
	out := make(map[K]store.Item[V], len(all))
	for id := range all {
		if out[id], err = store.GetItem(tx, c, id); err != nil {
			return nil, err
		}
	}
	return out, nil
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
		tables: p.nextTables(now, in.people),
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

// nextTables works out what the cores of each cell are to know.
func (p *plan) nextTables(now time.Time, in people) map[mesh.CellID]*table {
	need := map[mesh.CellID]int64{}
	devices := map[mesh.CellID]map[string]*controlpb.Device{}
	for id, c := range in.cells {
		need[id], devices[id] = int64(c.Rev), map[string]*controlpb.Device{}
	}
	for id, d := range in.devices {
		cell, ok := in.cells[d.Value.Assigned.Cell]
		if !ok {
			continue
		}
		m := in.members[d.Value.Member]
		need[cell.Value.ID] = max(need[cell.Value.ID], int64(d.Rev), int64(m.Rev))
		if served(d.Value, m.Value, cell.Value) {
			devices[cell.Value.ID][string(id)] = deviceMessage(d.Value.ForCore(cell.Value, now))
		}
	}
	out := map[mesh.CellID]*table{}
	for id := range devices {
		out[id] = p.tables[id].next(in.rev, need[id], devices[id])
	}
	return out
}

// served is mesh.Device.Served without the end of service, which cores know as
// a limit: a table does not change because time passes.
func served(d mesh.Device, m mesh.Member, c mesh.Cell) bool {
	return d.Served(m, c, time.Time{})
}
