package store

import (
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// note keeps what else is derived: routes, and how far the audit is chained.
func (p *importPlan) note(value any) {
	switch v := value.(type) {
	case mesh.Member:
		p.people.Members[v.ID] = Item[mesh.Member]{Key: string(v.ID), Value: v}
	case mesh.Device:
		p.people.Devices[v.ID] = Item[mesh.Device]{Key: string(v.ID), Value: v}
	case mesh.Cell:
		p.people.Cells[v.ID] = Item[mesh.Cell]{Key: string(v.ID), Value: v}
	case mesh.Core:
		p.cores[v.Cell] = append(p.cores[v.Cell], v)
	case mesh.AuditSegment:
		if v.ID > p.last.ID {
			p.last = v
		}
	case mesh.TrafficTotals:
		for id, n := range v.Devices {
			p.people.Spent[string(id)] = Item[mesh.Spent]{Value: mesh.Spent{Moved: n.Traffic}}
		}
	}
}

// routes are those that the imported devices are to have at now. They name every
// core that was ready once, before any has acknowledged a device table: the cores
// of a mesh that is restored still have theirs, and if entries found no route until
// all cores have come back, clients would notice. A core that does not know a
// device refuses it, and the entry goes on to the next. What is wrong with a device
// is left to the reconciler to say.
//
// Traffic counts as far as the backup has totals; what guests have moved is found
// again soon.
func (p *importPlan) routes(now time.Time) ([]imported, error) {
	var out []imported
	taken := map[mesh.ServerName]bool{}
	for _, id := range slices.Sorted(maps.Keys(p.people.Devices)) {
		var w imported
		var names []mesh.ServerName
		for _, r := range p.routesOf(id, now) {
			if n, err := mesh.ParseServerName(string(r.Name)); err != nil || n != r.Name || taken[r.Name] {
				continue
			}
			taken[r.Name] = true
			if err := w.also(folderPrefix(folderRoutes)+string(r.Name), r); err != nil {
				return nil, err
			}
			names = append(names, r.Name)
		}
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		if err := w.also(routeIndexKey(id), routeIndex{names}); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

func (p *importPlan) routesOf(id mesh.DeviceID, now time.Time) []mesh.Route {
	var out []mesh.Route
	d := p.people.Devices[id].Value
	for _, at := range p.people.Places(id, now) {
		hops := mesh.Hops(d, at.Cell.ID, p.cores[at.Cell.ID], func(mesh.Core) bool { return true })
		out = append(out, mesh.RoutesOf(d, at.Placement, hops, now)...)
	}
	return out
}
