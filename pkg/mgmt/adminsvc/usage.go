package adminsvc

import (
	"context"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// usage is who uses what, for the counts in views and for refusing to remove
// what is in use.
type usage struct {
	members map[mesh.MemberID]mesh.Member
	devices map[mesh.DeviceID]mesh.Device
	cells   map[mesh.CellID]mesh.Cell
	cores   map[mesh.CoreID]mesh.Core
	spent   map[string]mesh.Spent
	watch   map[mesh.CellID]mesh.CellWatch
	// served is who is served where.
	served *store.People
}

// usage reads at several moments, which is good enough to show.
func (s *Service) usage(ctx context.Context) (usage, error) {
	var u usage
	var err error
	if u.members, _, err = s.Store.Members.List(ctx); err != nil {
		return u, err
	}
	if u.devices, _, err = s.Store.Devices.List(ctx); err != nil {
		return u, err
	}
	if u.cells, _, err = s.Store.Cells.List(ctx); err != nil {
		return u, err
	}
	if u.cores, _, err = s.Store.Cores.List(ctx); err != nil {
		return u, err
	}
	if u.watch, _, err = s.Store.CellWatch.List(ctx); err != nil {
		return u, err
	}
	u.spent, _, err = s.Store.Spent.List(ctx)
	u.served = u.peopleWith(u.cells)
	return u, err
}

// peopleWith decides who would be served where if the cells were these.
func (u usage) peopleWith(cells map[mesh.CellID]mesh.Cell) *store.People {
	return &store.People{Members: items(u.members), Devices: items(u.devices), Cells: items(cells), Spent: items(u.spent)}
}

func items[K ~string, V any](all map[K]V) map[K]store.Item[V] {
	out := make(map[K]store.Item[V], len(all))
	for id, v := range all {
		out[id] = store.Item[V]{Key: string(id), Value: v}
	}
	return out
}

// usageIn reads as part of a transaction, which fails when it no longer holds.
func (s *Service) usageIn(tx *store.Tx) (usage, error) {
	var u usage
	var err error
	if u.members, err = store.List(tx, s.Store.Members); err != nil {
		return u, err
	}
	if u.devices, err = store.List(tx, s.Store.Devices); err != nil {
		return u, err
	}
	if u.cells, err = store.List(tx, s.Store.Cells); err != nil {
		return u, err
	}
	u.cores, err = store.List(tx, s.Store.Cores)
	return u, err
}

func (u usage) member(m mesh.Member) admin.MemberView {
	v := admin.MemberView{Member: m}
	for _, d := range u.devices {
		if d.Member == m.ID {
			v.Devices++
		}
	}
	for _, c := range u.cores {
		if c.Member == m.ID {
			v.Cores++
		}
	}
	return v
}

func (u usage) cell(c mesh.Cell) admin.CellView {
	v := admin.CellView{
		ID: c.ID, Name: c.Name, Suffix: c.Suffix, State: c.State, Certificate: c.Certificate,
		Fallback: c.Fallback, ForwardClientAddress: c.ForwardClientAddress, Created: c.Created,
		Order: c.Order, Offers: c.Offered(), Guests: c.Guests, Compromised: c.Compromised,
	}
	if w, ok := u.watch[c.ID]; ok {
		v.Unreachable = &w
	}
	for _, p := range c.Paths {
		if p.NotAfter.After(v.Replaced) {
			v.Replaced = p.NotAfter
		}
	}
	for _, d := range u.devices {
		if d.Assigned.Cell == c.ID {
			v.Devices++
		}
	}
	for _, n := range u.cores {
		if n.Cell != c.ID {
			continue
		}
		v.Cores++
		if n.State == mesh.CoreReady {
			v.CoresReady++
		}
	}
	return v
}
