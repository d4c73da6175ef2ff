package bots

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// own is all that a member sees: their own things.
func (s *Service) own(ctx context.Context, _ admin.None) (admin.BotOwnView, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.BotOwnView{}, err
	}
	v, err := s.Admin.Member(ctx, p.Member.ID)
	if err != nil {
		return admin.BotOwnView{}, err
	}
	out := admin.BotOwnView{Member: v.Member, Devices: v.DeviceList, Limit: limitOf(p.Member, p.Settings)}
	out.Member.Note = "" // is for administrators
	if out.Cores, err = s.Admin.CoresOf(ctx, p.Member.ID); err != nil {
		return out, err
	}
	cells, _, err := s.Store.Cells.List(ctx)
	if err != nil {
		return out, err
	}
	for _, id := range homes(out.Devices, out.Cores) {
		if c := cells[id]; c.State == mesh.CellActive {
			out.Cells = append(out.Cells, admin.Ref{Ref: c.Name})
		}
	}
	return out, nil
}

// limitOf is how many devices a member may have who adds them.
func limitOf(m mesh.Member, set mesh.BotSettings) int {
	if m.DeviceLimit != nil {
		return *m.DeviceLimit
	}
	return set.DeviceLimit
}

// homes are the cells where the member has something: first that of most devices.
func homes(devices []admin.DeviceView, cores []admin.CoreView) []mesh.CellID {
	count := map[mesh.CellID]int{}
	var out []mesh.CellID
	note := func(id mesh.CellID, n int) {
		if _, ok := count[id]; !ok {
			out = append(out, id)
		}
		count[id] += n
	}
	for _, d := range devices {
		if d.State != mesh.DeviceRevoked {
			note(d.Cell, 1)
		}
	}
	for _, c := range cores {
		if !c.Revoked {
			note(c.Cell, 0)
		}
	}
	slices.SortStableFunc(out, func(a, b mesh.CellID) int { return count[b] - count[a] })
	return out
}

// deviceAdd adds a device of the member's own, within their limit, to where they
// have something already, and with no wider limits than they have.
func (s *Service) deviceAdd(ctx context.Context, req admin.BotDeviceAddRequest) (admin.DeviceView, error) {
	p, err := activeMember(ctx)
	if err != nil {
		return admin.DeviceView{}, err
	}
	own, err := s.own(ctx, admin.None{})
	if err != nil {
		return admin.DeviceView{}, err
	}
	if len(own.Cells) == 0 {
		return admin.DeviceView{}, mesh.WithHint(fmt.Errorf("bots: add a device: the member has nothing in any active cell yet: %w", mesh.ErrConflict),
			"ask an operator to add the first device")
	}
	cell := own.Cells[0]
	if req.Cell != "" {
		cell = admin.Ref{Ref: req.Cell}
		if !slices.Contains(own.Cells, cell) {
			return admin.DeviceView{}, fmt.Errorf("bots: add a device: cell %q is not the member's: %w", mesh.Quotable(req.Cell), mesh.ErrDenied)
		}
	}
	defer s.Store.Sealing()()
	d, err := s.Admin.NewDevice(req.Name, widest(own.Devices))
	if err != nil {
		return admin.DeviceView{}, err
	}
	err = s.change(ctx, "device.add", func(tx *store.Tx) error {
		m, err := s.roomFor(tx, p.Member.ID)
		if err != nil {
			return err
		}
		return s.Admin.PlaceDevice(tx, d, m, cell.Ref, "")
	})
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.Admin.ServedDevice(ctx, d.ID)
}

// roomFor is the member, if they may have one more device.
func (s *Service) roomFor(tx *store.Tx, id mesh.MemberID) (mesh.Member, error) {
	m, err := store.Get(tx, s.Store.Members, id)
	if err != nil {
		return m, err
	}
	cfg, err := store.Get(tx, s.Store.Config, store.ConfigKey)
	if err != nil {
		return m, err
	}
	all, err := store.List(tx, s.Store.Devices)
	if err != nil {
		return m, err
	}
	has := 0
	for _, d := range all {
		if d.Member == id && d.State != mesh.DeviceRevoked {
			has++
		}
	}
	limit := limitOf(m, cfg.Bot)
	switch {
	case m.State != mesh.MemberActive:
		return m, fmt.Errorf("bots: add a device: the member is %s: %w", m.State, mesh.ErrConflict)
	case has >= limit:
		return m, mesh.WithHint(fmt.Errorf("bots: add a device: the member has %d, and may have %d: %w", has, limit, mesh.ErrConflict),
			"ask an operator for more")
	}
	return m, nil
}

// widest are limits no wider than the widest of the member's devices.
func widest(devices []admin.DeviceView) mesh.Limits {
	var out mesh.Limits
	seen := false
	for _, d := range devices {
		if d.State == mesh.DeviceRevoked {
			continue
		}
		if !seen {
			out, seen = d.Limits, true
			continue
		}
		out.Connections = wider(out.Connections, d.Limits.Connections)
		out.Traffic = wider(out.Traffic, d.Limits.Traffic)
		switch {
		case out.Expires.IsZero() || d.Limits.Expires.IsZero():
			out.Expires = mesh.Limits{}.Expires
		case d.Limits.Expires.After(out.Expires):
			out.Expires = d.Limits.Expires
		}
	}
	return out
}

// wider is the wider of two limits, of which 0 is none.
func wider[N int | int64](a, b N) N {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

func (s *Service) deviceLink(ctx context.Context, req admin.DeviceSubscribeRequest) (admin.SubscriptionLink, error) {
	d, err := s.ownDevice(ctx, req.Ref)
	if err != nil {
		return admin.SubscriptionLink{}, err
	}
	return s.Admin.Subscribe(ctx, admin.DeviceSubscribeRequest{Ref: string(d), Replace: req.Replace})
}

// deviceRotate is for a device that was lost: whoever has it can do nothing with
// it any more.
func (s *Service) deviceRotate(ctx context.Context, req admin.Ref) (admin.SubscriptionLink, error) {
	d, err := s.ownDevice(ctx, req.Ref)
	if err != nil {
		return admin.SubscriptionLink{}, err
	}
	if err := s.Admin.Linkable(ctx); err != nil {
		return admin.SubscriptionLink{}, err
	}
	if err := s.Admin.Rotate(ctx, d); err != nil {
		return admin.SubscriptionLink{}, err
	}
	return s.Admin.Subscribe(ctx, admin.DeviceSubscribeRequest{Ref: string(d), Replace: true})
}

// ownDevice finds a device of the member's by id or name. That others' exist, it
// does not say.
func (s *Service) ownDevice(ctx context.Context, ref string) (mesh.DeviceID, error) {
	p, err := activeMember(ctx)
	if err != nil {
		return "", err
	}
	if !mesh.IsID(ref) {
		ref = string(p.Member.ID) + "/" + ref
	}
	d, err := s.Store.Devices.Lookup(ctx, ref)
	if absent(err) != nil {
		return "", err
	}
	if err != nil || d.Member != p.Member.ID {
		return "", fmt.Errorf("bots: find a device: the member has none like that: %w", mesh.ErrNotFound)
	}
	return d.ID, nil
}

func activeMember(ctx context.Context) (admin.BotPerson, error) {
	p, err := caller(ctx)
	if err == nil && p.Member.State != mesh.MemberActive {
		err = fmt.Errorf("bots: the member is %s: %w", p.Member.State, mesh.ErrConflict)
	}
	return p, err
}
