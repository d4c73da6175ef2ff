package adminsvc

import (
	"context"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// cellForecastOf says what a change of a cell's state would do to the devices
// that are served now. It goes by the same rules as routes do, except for what
// guests have moved: a member who used up a host's grant may find less.
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
	then := maps.Clone(u.cells)
	c.State = req.State
	then[c.ID] = c

	f := forecast{out: &out, hosts: map[mesh.CellID]int{}, members: map[mesh.MemberID]bool{}}
	of := u.devicesOf()
	for _, d := range u.devices {
		if d.State != mesh.DeviceActive || u.members[d.Member].State != mesh.MemberActive || d.Limits.Expired(s.now()) {
			continue
		}
		taken := mesh.Taken{Devices: of[d.Member]}
		f.count(d, mesh.Placements(d, u.cells, taken), mesh.Placements(d, then, taken))
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
func (f *forecast) count(d mesh.Device, now, then []mesh.Placement) {
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
func (f *forecast) unsafe(then []mesh.Placement) bool {
	return !slices.ContainsFunc(then, func(p mesh.Placement) bool { return p.Cell.State == mesh.CellActive })
}

// hosted is the cell in which a device is a guest; "" when it is none.
func hosted(places []mesh.Placement) mesh.CellID {
	for _, p := range places {
		if p.Guest {
			return p.Cell.ID
		}
	}
	return ""
}

func in(places []mesh.Placement, id mesh.CellID) bool {
	return slices.ContainsFunc(places, func(p mesh.Placement) bool { return p.Cell.ID == id })
}

// devicesOf are the devices of each member.
func (u usage) devicesOf() map[mesh.MemberID][]mesh.Device {
	out := make(map[mesh.MemberID][]mesh.Device)
	for _, d := range u.devices {
		out[d.Member] = append(out[d.Member], d)
	}
	return out
}
