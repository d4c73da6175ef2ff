package adminsvc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (s *Service) deviceList(ctx context.Context, req admin.DeviceListRequest) (admin.List[admin.DeviceView], error) {
	var member mesh.MemberID
	var cell mesh.CellID
	if req.Member != "" {
		m, err := s.Store.Members.Lookup(ctx, req.Member)
		if err != nil {
			return admin.List[admin.DeviceView]{}, err
		}
		member = m.ID
	}
	if req.Cell != "" {
		c, err := s.Store.Cells.Lookup(ctx, req.Cell)
		if err != nil {
			return admin.List[admin.DeviceView]{}, err
		}
		cell = c.ID
	}
	u, err := s.usage(ctx)
	if err != nil {
		return admin.List[admin.DeviceView]{}, err
	}
	routes, _, err := s.Store.Routes.List(ctx)
	if err != nil {
		return admin.List[admin.DeviceView]{}, err
	}
	traffic, err := s.Store.Traffic(ctx)
	if err != nil {
		return admin.List[admin.DeviceView]{}, err
	}
	return list(ctx, req.Page, s.Store.Devices.Page, func(_ string, d mesh.Device) (admin.DeviceView, bool) {
		if !only(member, d.Member) || !only(cell, d.Assigned.Cell) {
			return admin.DeviceView{}, false
		}
		return s.showDevice(d, u, routes, traffic), true
	})
}

func (s *Service) deviceGet(ctx context.Context, req admin.Ref) (admin.DeviceView, error) {
	d, err := s.Store.Devices.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.deviceView(ctx, d.ID)
}

// servedView waits, briefly, until the device is served as far as it can be:
// whoever gets the answer uses the device at once.
func (s *Service) servedView(ctx context.Context, id mesh.DeviceID) (admin.DeviceView, error) {
	if s.WaitServed != nil && s.toBeServed(ctx, id) {
		wait, cancel := context.WithTimeout(ctx, servedWithin)
		err := s.WaitServed(wait, id)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			// The change is made; the view says what is still missing.
			s.Log.Debug("waiting for cores ended", "err", err)
		}
	}
	return s.deviceView(context.WithoutCancel(ctx), id)
}

// toBeServed says whether cores are to let the device through: for one that was
// suspended nothing is to be waited for.
func (s *Service) toBeServed(ctx context.Context, id mesh.DeviceID) bool {
	d, err := s.Store.Devices.Get(ctx, id)
	m, err2 := s.Store.Members.Get(ctx, d.Value.Member)
	c, err3 := s.Store.Cells.Get(ctx, d.Value.Assigned.Cell)
	return errors.Join(err, err2, err3) == nil && d.Value.Served(m.Value, c.Value, s.now())
}

func (s *Service) deviceView(ctx context.Context, id mesh.DeviceID) (admin.DeviceView, error) {
	it, err := s.Store.Devices.Get(ctx, id)
	if err != nil {
		return admin.DeviceView{}, err
	}
	d := it.Value
	u, err := s.usage(ctx)
	if err != nil {
		return admin.DeviceView{}, err
	}
	routes, err := s.routesOf(ctx, s.namesOf(d, u))
	if err != nil {
		return admin.DeviceView{}, err
	}
	traffic, err := s.Store.Traffic(ctx)
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.showDevice(d, u, routes, traffic), nil
}

// routesOf are the routes that there are of some names.
func (s *Service) routesOf(ctx context.Context, names []mesh.ServerName) (map[mesh.ServerName]mesh.Route, error) {
	out := map[mesh.ServerName]mesh.Route{}
	for _, n := range names {
		r, err := s.Store.Routes.Get(ctx, n)
		switch {
		case err == nil:
			out[n] = r.Value
		case !errors.Is(err, mesh.ErrNotFound):
			return nil, err
		}
	}
	return out, nil
}

// namesOf are the names under which a device is served or, when it is not, would
// be in its own cell. Those that clients are to use come last.
func (s *Service) namesOf(d mesh.Device, u usage) []mesh.ServerName {
	var out []mesh.ServerName
	for _, p := range u.served.Places(d.ID, s.now()) {
		out = append(out, d.Names(p.Cell.Suffix, s.now())...)
	}
	if len(out) == 0 {
		return d.Names(u.cells[d.Assigned.Cell].Suffix, s.now())
	}
	return out
}

func (s *Service) showDevice(d mesh.Device, u usage, routes map[mesh.ServerName]mesh.Route, traffic store.TrafficNow) admin.DeviceView {
	cell, member, total := u.cells[d.Assigned.Cell], u.members[d.Member], traffic.Devices[d.ID]
	v := admin.DeviceView{
		ID: d.ID, Name: d.Name, State: d.State, Standing: mesh.DeviceStanding(d, member, total.Traffic, s.now()),
		Member: d.Member, MemberName: member.Name, Cell: cell.ID, CellName: cell.Name,
		Core: d.Assigned.Core, CoreName: u.cores[d.Assigned.Core].Name,
		ServerNames: s.namesOf(d, u), Limits: d.Limits, Created: d.Created,
		Used: total.Traffic, LastUsed: total.Last.Start(), Counted: d.Counted(total.Traffic).Bytes(), Reset: d.Reset.At,
		Linked: d.Subscription.Created,
	}
	for _, l := range d.Labels {
		if s.now().Before(l.NotAfter) && l.NotAfter.After(v.Replaced) {
			v.Replaced = l.NotAfter
		}
	}
	for _, p := range u.served.Places(d.ID, s.now()) {
		switch {
		case !p.Until.IsZero():
			v.Earlier = append(v.Earlier, admin.EarlierPlace{Cell: p.Cell.ID, CellName: p.Cell.Name, Until: p.Until})
		case p.Guest:
			v.Host, v.HostName = p.Cell.ID, p.Cell.Name
		}
	}
	var hops []mesh.Hop
	for _, n := range slices.Backward(v.ServerNames) {
		if r, ok := routes[n]; ok && r.Device == d.ID {
			hops = r.Hops
			break
		}
	}
	v.Via, v.Waiting = u.named(hops), s.waiting(d, u, v, hops)
	return v
}

// waiting says why a device is not served, or not through all it could be.
func (s *Service) waiting(d mesh.Device, u usage, v admin.DeviceView, hops []mesh.Hop) string {
	m, c := u.members[d.Member], u.cells[cmp.Or(v.Host, d.Assigned.Cell)]
	switch {
	case d.State != mesh.DeviceActive:
		return "the device is " + string(d.State)
	case m.State != mesh.MemberActive:
		return fmt.Sprintf("member %s is %s", m.Name, m.State)
	case v.Standing == mesh.StandingExpired:
		return "its service ended at " + d.Limits.Expires.UTC().Format("2006-01-02 15:04 MST")
	case v.Standing == mesh.StandingExhausted:
		return "its traffic is used up"
	case c.State == mesh.CellRetired:
		return fmt.Sprintf("cell %s is retired, and no fallback takes the device in", c.Name)
	case c.State == mesh.CellCompromised:
		return fmt.Sprintf("cell %s is compromised, and no fallback takes the device in", c.Name)
	}
	var missing []string
	able := 0
	for _, core := range u.cores {
		if core.Cell != c.ID || core.Revoked || !core.EverReady {
			continue
		}
		able++
		if !slices.ContainsFunc(hops, func(h mesh.Hop) bool { return h.ID == string(core.ID) }) {
			missing = append(missing, core.Name)
		}
	}
	slices.Sort(missing)
	switch {
	case able == 0:
		return fmt.Sprintf("no core of cell %s was ready yet", c.Name)
	case len(missing) > 0:
		return "not confirmed yet by " + strings.Join(missing, ", ")
	}
	return ""
}

// deviceLinkOf reveals a device's secret, so reading it is a change: it leaves
// an audit record.
func (s *Service) deviceLinkOf(ctx context.Context, req admin.Ref) (admin.DeviceLink, error) {
	var d mesh.Device
	var c mesh.Cell
	err := s.change(ctx, "device.link", func(tx *store.Tx) error {
		var err error
		if d, err = store.Lookup(tx, s.Store.Devices, req.Ref); err != nil {
			return err
		}
		if d.State == mesh.DeviceRevoked {
			return mesh.WithHint(fmt.Errorf("admin: device %s is revoked: %w", d.Name, mesh.ErrConflict), "add a new device")
		}
		if c, err = store.Get(tx, s.Store.Cells, d.Assigned.Cell); err != nil {
			return err
		}
		return tx.Accessed("device/" + string(d.ID))
	})
	if err != nil {
		return admin.DeviceLink{}, err
	}
	secret, err := s.Store.Unseal(store.DeviceSecretPlace(d.ID), d.Secret)
	if err != nil {
		return admin.DeviceLink{}, err
	}
	cfg, err := s.configAsTold(ctx)
	if err != nil {
		return admin.DeviceLink{}, err
	}
	names := d.Names(c.Suffix, s.now())
	if len(names) == 0 {
		return admin.DeviceLink{}, fmt.Errorf("admin: device %s has no valid name: %w", d.Name, mesh.ErrConflict)
	}
	return admin.DeviceLink{
		Device: d.ID, ServerName: names[len(names)-1], User: string(d.ID), Secret: secret.Reveal(),
		CA: c.CACert, HiddenHost: mesh.ServerName(d.HiddenLabel) + "." + c.Suffix, Entries: cfg.EntryAddresses,
	}, nil
}
