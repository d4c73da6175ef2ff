package store

import (
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// note keeps what routes are derived from.
func (p *importPlan) note(value any) {
	switch v := value.(type) {
	case mesh.Member:
		p.members[v.ID] = v
	case mesh.Device:
		p.devices[v.ID] = v
	case mesh.Cell:
		p.cells[v.ID] = v
	case mesh.Core:
		p.cores[v.Cell] = append(p.cores[v.Cell], v)
	}
}

// routes are those that the imported devices are to have at now. They name every
// core that was ready once, before any has acknowledged a device table: the cores
// of a mesh that is restored still have theirs, and if entries found no route until
// all cores have come back, clients would notice. A core that does not know a
// device refuses it, and the entry goes on to the next. What is wrong with a device
// is left to the reconciler to say.
func (p *importPlan) routes(now time.Time) ([]imported, error) {
	var out []imported
	taken := map[mesh.ServerName]bool{}
	for _, id := range slices.Sorted(maps.Keys(p.devices)) {
		d := p.devices[id]
		m, known := p.members[d.Member]
		c, placed := p.cells[d.Assigned.Cell]
		if !known || !placed {
			continue
		}
		hops := mesh.Hops(d, p.cores[c.ID], func(mesh.Core) bool { return true })
		var w imported
		var names []mesh.ServerName
		for _, r := range mesh.RoutesOf(d, m, c, hops, now) {
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
