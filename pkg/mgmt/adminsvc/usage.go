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
	u.cores, _, err = s.Store.Cores.List(ctx)
	return u, err
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

// used adds what a device has moved, and what follows from that.
func (s *Service) used(v admin.DeviceView, d mesh.Device, u usage, t store.TrafficNow) admin.DeviceView {
	total := t.Devices[d.ID]
	v.Used, v.LastUsed, v.Counted = total.Traffic, total.Last.Start(), d.Counted(total.Traffic).Bytes()
	v.Standing = mesh.DeviceStanding(d, u.members[d.Member], total.Traffic, s.now())
	if v.Standing == mesh.StandingExhausted {
		v.Waiting = "its traffic is used up"
	}
	return v
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
