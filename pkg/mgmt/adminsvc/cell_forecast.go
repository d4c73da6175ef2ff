package adminsvc

import (
	"context"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// cellForecastOf says what a change of a cell's state would do to the devices
// that are served now. It goes by the same rules as routes do.
func (s *Service) cellForecastOf(ctx context.Context, req admin.CellForecastRequest) (admin.CellForecast, error) {
	if err := checkCellState(req.State); err != nil {
		return admin.CellForecast{}, err
	}
	c, err := s.Store.Cells.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.CellForecast{}, err
	}
	u, err := s.usage(ctx)
	if err != nil {
		return admin.CellForecast{}, err
	}
	out := admin.CellForecast{Cell: c.ID, Name: c.Name, State: c.State}
	c.State = req.State
	cells := maps.Clone(u.cells)
	cells[c.ID] = c
	then := u.peopleWith(cells)

	f := forecast{out: &out, hosts: map[mesh.CellID]int{}, members: map[mesh.MemberID]bool{}}
	for id, d := range u.devices {
		if then.Standing(d, u.members[d.Member], s.now()) == mesh.StandingOK {
			f.count(d, u.served.Places(id, s.now()), then.Places(id, s.now()))
		}
	}
	out.Members = len(f.members)
	for id, n := range f.hosts {
		v := u.cell(u.cells[id])
		out.Hosts = append(out.Hosts, admin.CellHost{Cell: id, Name: v.Name, Suffix: v.Suffix, Devices: n, CoresReady: v.CoresReady})
	}
	slices.SortFunc(out.Hosts, func(a, b admin.CellHost) int { return b.Devices - a.Devices })
	return out, nil
}

type forecast struct {
	out     *admin.CellForecast
	hosts   map[mesh.CellID]int
	members map[mesh.MemberID]bool
}

// count takes in where a device is now, and where it would be.
func (f *forecast) count(d mesh.Device, now, then []store.Place) {
	here := f.out.Cell
	if d.Assigned.Cell != here {
		if hosted(now) == here && hosted(then) != here {
			f.out.Dismissed++
		}
		return
	}
	f.out.Devices++
	f.members[d.Member] = true
	switch host := hosted(then); {
	case host != "":
		f.hosts[host]++
	case hosted(now) != "" && in(then, here):
		f.out.Returning++
	case f.unsafe(then):
		f.out.Stranded++
	}
}

// unsafe says whether a device would have no way but into a cell that is to be
// left.
func (f *forecast) unsafe(then []store.Place) bool {
	return !slices.ContainsFunc(then, func(p store.Place) bool { return p.Offered() })
}

// hosted is the cell in which a device is a guest, not only since it was one
// earlier; "" when it is none.
func hosted(places []store.Place) mesh.CellID {
	for _, p := range places {
		if p.Guest && p.Until.IsZero() {
			return p.Cell.ID
		}
	}
	return ""
}

func in(places []store.Place, id mesh.CellID) bool {
	return slices.ContainsFunc(places, func(p store.Place) bool { return p.Cell.ID == id })
}
