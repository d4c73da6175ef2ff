package subs

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// people are what decides where a device is served: in most cases the device, its
// member and its cell.
func (s *Service) people(d mesh.Device) *store.People {
	p := &store.People{
		Members: map[mesh.MemberID]store.Item[mesh.Member]{},
		Devices: map[mesh.DeviceID]store.Item[mesh.Device]{},
		Cells:   map[mesh.CellID]store.Item[mesh.Cell]{},
		Spent:   map[string]store.Item[mesh.Spent]{},
	}
	cells, spent := s.State.Cells(), s.State.Spent()
	own := cells[d.Assigned.Cell]
	note(p.Devices, d.ID, d)
	note(p.Cells, own.ID, own)
	if m, ok := s.State.Member(d.Member); ok {
		note(p.Members, m.ID, m)
	}
	if v, ok := spent[string(d.ID)]; ok {
		note(p.Spent, v.ID, v)
	}
	if !d.AtHome(own) {
		s.hosts(p, d, cells, spent)
	}
	return p
}

// hosts adds what decides whether another cell takes a device in as a guest.
func (s *Service) hosts(p *store.People, d mesh.Device, cells map[mesh.CellID]mesh.Cell, spent map[string]mesh.Spent) {
	for id, c := range cells {
		note(p.Cells, id, c)
		if v, ok := spent[mesh.SpentGuests(id, d.Member)]; ok {
			note(p.Spent, v.ID, v)
		}
	}
	for _, id := range s.index.devicesOf(d.Member) { // they may be in its way
		if o, ok := s.State.Device(id); ok {
			note(p.Devices, id, o)
		}
	}
}

func note[K ~string, V any](in map[K]store.Item[V], id K, v V) {
	in[id] = store.Item[V]{Key: string(id), Value: v}
}

// places are the cells whose names the device's client is given, and why others
// are left out: those of a cell that is not active are not, nor those of where it
// was served earlier, although they may still work.
func places(p *store.People, d mesh.Device, now time.Time) (given []mesh.Placement, left []subscription.Left) {
	hide := func(c mesh.Cell, why string) {
		left = append(left, subscription.Left{Name: c.Name, Cell: c.Name, Reason: why})
	}
	for _, at := range p.Places(d.ID, now) {
		switch {
		case at.Offered():
			given = append(given, at.Placement)
		case !at.Until.IsZero():
			hide(at.Cell, "the device was served there earlier; what clients still have of it works until "+at.Until.UTC().Format("2006-01-02 15:04 MST"))
		}
	}
	own := p.Cells[d.Assigned.Cell].Value
	if own.State == mesh.CellActive {
		return given, left
	}
	hide(own, "the cell is "+string(own.State))
	if len(given) == 0 {
		hide(own, "no fallback takes the device in: there is none that is active, or it has no room for more of the member's devices or traffic")
	}
	return given, left
}
