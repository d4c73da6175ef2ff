package subs

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// people are what decides where a device is served.
func (s *Service) people(d mesh.Device) *store.People {
	p := &store.People{
		Members: map[mesh.MemberID]store.Item[mesh.Member]{},
		Devices: map[mesh.DeviceID]store.Item[mesh.Device]{d.ID: {Key: string(d.ID), Value: d}},
		Cells:   map[mesh.CellID]store.Item[mesh.Cell]{},
		Spent:   map[string]store.Item[mesh.Spent]{},
	}
	spent := s.State.Spent()
	note := func(id string) {
		if v, ok := spent[id]; ok {
			p.Spent[id] = store.Item[mesh.Spent]{Key: id, Value: v}
		}
	}
	note(string(d.ID))
	for id, c := range s.State.Cells() {
		p.Cells[id] = store.Item[mesh.Cell]{Key: string(id), Value: c}
		note(mesh.SpentGuests(id, d.Member))
	}
	if m, ok := s.State.Member(d.Member); ok {
		p.Members[m.ID] = store.Item[mesh.Member]{Key: string(m.ID), Value: m}
	}
	if p.Cells[d.Assigned.Cell].Value.State == mesh.CellActive {
		return p
	}
	for _, id := range s.index.devicesOf(d.Member) { // they may be in its way as guests
		if o, ok := s.State.Device(id); ok {
			p.Devices[id] = store.Item[mesh.Device]{Key: string(id), Value: o}
		}
	}
	return p
}

// places are the cells whose names the device's client is given, and why others
// are left out: those of a cell that is not active are not, although they may
// still work.
func places(p *store.People, d mesh.Device, now time.Time) (given []mesh.Placement, left []subscription.Left) {
	for _, at := range p.Places(d.ID, now) {
		if at.Cell.State == mesh.CellActive {
			given = append(given, at.Placement)
		}
	}
	own := p.Cells[d.Assigned.Cell].Value
	if own.State == mesh.CellActive {
		return given, nil
	}
	left = append(left, subscription.Left{Name: own.Name, Cell: own.Name, Reason: "the cell is " + string(own.State)})
	if len(given) == 0 {
		left = append(left, subscription.Left{Name: own.Name, Cell: own.Name, Reason: "no fallback takes the device in: there is none that is active, or it has no room for more of the member's devices or traffic"})
	}
	return given, left
}
