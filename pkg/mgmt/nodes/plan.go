package nodes

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// plan is what every node should have: configurations, and the device table of
// each cell. It never changes.
type plan struct {
	entry  *controlpb.Config
	cores  map[mesh.CoreID]*controlpb.Config
	tables map[mesh.CellID]*table
	served map[mesh.CoreID]mesh.CellID // cores that get their cell's table
}

// input is what a plan is worked out from.
type input struct {
	people
	config mesh.Config
	cores  map[mesh.CoreID]mesh.Core
	own    []string // addresses of the mesh itself
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
		entry:  keep(p.entry, entryConfig(in), in.rev),
		cores:  map[mesh.CoreID]*controlpb.Config{},
		tables: p.nextTables(now, in.people),
		served: map[mesh.CoreID]mesh.CellID{},
	}
	for id, c := range in.cores {
		if c.Revoked {
			continue
		}
		n.cores[id] = keep(p.cores[id], coreConfig(in, c), in.rev)
		if c.EverReady {
			n.served[id] = c.Cell
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
		return want{config: p.entry}
	}
	core := mesh.CoreID(id.ID)
	w := want{config: p.cores[core]}
	if cell, ok := p.served[core]; ok {
		w.table = p.tables[cell]
	}
	return w
}

// keep returns old when it says the same as c, otherwise c with a new revision.
func keep(old, c *controlpb.Config, rev int64) *controlpb.Config {
	c.Revision = old.GetRevision()
	if old != nil && proto.Equal(old, c) {
		return old
	}
	c.Revision = max(rev, old.GetRevision()+1)
	return c
}

func entryConfig(in input) *controlpb.Config {
	c := &controlpb.Config{StaleIfErrorNanos: int64(in.config.StaleIfError)}
	for _, cell := range in.cells {
		if cell.Value.State != mesh.CellRetired {
			c.Suffixes = append(c.Suffixes, string(cell.Value.Suffix))
		}
	}
	slices.Sort(c.Suffixes)
	return c
}

func coreConfig(in input, c mesh.Core) *controlpb.Config {
	cell := in.cells[c.Cell].Value
	return &controlpb.Config{
		CellId:          string(c.Cell),
		CellSuffix:      string(cell.Suffix),
		CellCertificate: string(cell.Certificate),
		Drain:           c.Drain,
		MeshAddresses:   in.own,
	}
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
