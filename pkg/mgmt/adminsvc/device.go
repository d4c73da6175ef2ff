package adminsvc

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// servedWithin is how long an answer waits for cores to know a device.
const servedWithin = 3 * time.Second

// secretBytes of randomness make a device's secret.
const secretBytes = 32

func (s *Service) deviceAdd(ctx context.Context, req admin.DeviceAddRequest) (admin.DeviceView, error) {
	id, err := s.createDevice(ctx, req)
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.servedView(ctx, id)
}

func (s *Service) createDevice(ctx context.Context, req admin.DeviceAddRequest) (mesh.DeviceID, error) {
	defer s.Store.Sealing()()
	d, err := s.newDevice(req)
	if err != nil {
		return "", err
	}
	return d.ID, s.change(ctx, "device.add", func(tx *store.Tx) error {
		m, err := store.Lookup(tx, s.Store.Members, req.Member)
		if err != nil {
			return err
		}
		return s.PlaceDevice(tx, d, m, req.Cell, req.Core)
	})
}

// PlaceDevice stores a new device of the member's, which is served in the cell, or
// through the core first.
func (s *Service) PlaceDevice(tx *store.Tx, d mesh.Device, m mesh.Member, cell, core string) (err error) {
	if m.State == mesh.MemberArchived {
		return fmt.Errorf("admin: member %s is archived: %w", m.Name, mesh.ErrConflict)
	}
	d.Member = m.ID
	if d.Assigned, err = s.assign(tx, cell, core); err != nil {
		return err
	}
	if err := store.Create(tx, s.Store.Devices, d.ID, d); err != nil {
		return err
	}
	return s.sync(tx, d.ID)
}

// newDevice makes what does not depend on the store's state.
func (s *Service) newDevice(req admin.DeviceAddRequest) (mesh.Device, error) {
	now := s.now()
	if err := mesh.CheckName(req.Name); err != nil {
		return mesh.Device{}, err
	}
	if err := checkLimits(req.Limits, now); err != nil {
		return mesh.Device{}, err
	}
	d := mesh.Device{
		ID: mesh.NewDeviceID(), Name: req.Name, State: mesh.DeviceActive,
		Labels: []mesh.Label{{Label: mesh.NewLabel(), Since: now}}, HiddenLabel: mesh.NewLabel(),
		Limits: req.Limits, Created: now,
	}
	err := s.giveSecret(&d)
	return d, err
}

func checkLimits(l mesh.Limits, now time.Time) error {
	switch {
	case l.Connections < 0:
		return fmt.Errorf("admin: %d connections: want 0 (unlimited) or more: %w", l.Connections, mesh.ErrInvalid)
	case l.Traffic < 0:
		return fmt.Errorf("admin: %d bytes of traffic: want 0 (unlimited) or more: %w", l.Traffic, mesh.ErrInvalid)
	case l.Expired(now):
		return fmt.Errorf("admin: expiry %s lies in the past: %w", l.Expires.UTC().Format(time.RFC3339), mesh.ErrInvalid)
	}
	return nil
}

// assign turns the cell or core that a request names into an assignment.
func (s *Service) assign(tx *store.Tx, cell, core string) (mesh.Assignment, error) {
	var a mesh.Assignment
	switch {
	case (cell == "") == (core == ""):
		return a, mesh.WithHint(fmt.Errorf("admin: assign device: want either a cell or a core: %w", mesh.ErrInvalid), "give --cell or --core")
	case core != "":
		c, err := store.Lookup(tx, s.Store.Cores, core)
		if err != nil {
			return a, err
		}
		if c.Revoked {
			return a, fmt.Errorf("admin: core %s is revoked: %w", c.Name, mesh.ErrConflict)
		}
		a = mesh.Assignment{Cell: c.Cell, Core: c.ID}
	default:
		c, err := store.Lookup(tx, s.Store.Cells, cell)
		if err != nil {
			return a, err
		}
		a = mesh.Assignment{Cell: c.ID}
	}
	c, err := store.Get(tx, s.Store.Cells, a.Cell)
	if err == nil && c.State == mesh.CellRetired {
		err = fmt.Errorf("admin: cell %s is retired: %w", c.Name, mesh.ErrConflict)
	}
	return a, err
}

func (s *Service) deviceSet(ctx context.Context, req admin.DeviceSetRequest) (admin.DeviceView, error) {
	var id mesh.DeviceID
	err := s.change(ctx, "device.set", func(tx *store.Tx) error {
		d, err := store.Lookup(tx, s.Store.Devices, req.Ref)
		if err != nil {
			return err
		}
		id = d.ID
		err = store.Update(tx, s.Store.Devices, d.ID, func(d *mesh.Device) error { return s.setDevice(tx, d, req) })
		if err != nil {
			return err
		}
		return s.sync(tx, d.ID)
	})
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.servedView(ctx, id)
}

func (s *Service) setDevice(tx *store.Tx, d *mesh.Device, req admin.DeviceSetRequest) error {
	if req.Name != nil {
		if err := mesh.CheckName(*req.Name); err != nil {
			return err
		}
		d.Name = *req.Name
	}
	if err := setDeviceState(d, req.State); err != nil {
		return err
	}
	if req.Cell != nil || req.Core != nil {
		a, err := s.assign(tx, deref(req.Cell), deref(req.Core))
		if err != nil {
			return err
		}
		if err := s.move(tx, d, a); err != nil {
			return err
		}
	}
	before := d.Limits
	setLimits(&d.Limits, req)
	if d.Limits == before {
		return nil
	}
	now := s.now()
	if d.Limits.Expires.Equal(before.Expires) { // what ran out already may stay
		now = time.Time{}
	}
	return checkLimits(d.Limits, now)
}

// move assigns a device to another place; where it was served until now it stays so
// for the overlap, as its client has yet to hear of it.
func (s *Service) move(tx *store.Tx, d *mesh.Device, to mesh.Assignment) error {
	places, err := store.PlacesOf(tx, d.ID, s.now())
	if err != nil {
		return err
	}
	until, err := s.overlapEnd(tx)
	if err != nil {
		return err
	}
	d.Move(to, places, until)
	return nil
}

func setLimits(l *mesh.Limits, req admin.DeviceSetRequest) {
	if req.Limits != nil {
		*l = *req.Limits
	}
	if req.Connections != nil {
		l.Connections = *req.Connections
	}
	if req.Traffic != nil {
		l.Traffic = *req.Traffic
	}
	if req.Expires != nil {
		l.Expires = *req.Expires
	}
}

func setDeviceState(d *mesh.Device, to *mesh.DeviceState) error {
	if to == nil || *to == d.State {
		return nil
	}
	switch {
	case *to != mesh.DeviceActive && *to != mesh.DeviceSuspended:
		return mesh.WithHint(fmt.Errorf("admin: device state %q: want active or suspended: %w", mesh.Quotable(string(*to)), mesh.ErrInvalid),
			"to refuse it for good: meshctl admin device revoke")
	case d.State == mesh.DeviceRevoked:
		return mesh.WithHint(fmt.Errorf("admin: device %s is revoked, which is final: %w", d.Name, mesh.ErrConflict),
			"add a new device")
	}
	d.State = *to
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (s *Service) deviceRevoke(ctx context.Context, req admin.RevokeRequest) (admin.DeviceView, error) {
	var id mesh.DeviceID
	err := s.change(ctx, "device.revoke", func(tx *store.Tx) error {
		d, err := store.Lookup(tx, s.Store.Devices, req.Ref)
		if err != nil {
			return err
		}
		id = d.ID
		err = store.Update(tx, s.Store.Devices, id, func(d *mesh.Device) error {
			d.State = mesh.DeviceRevoked
			return nil
		})
		if err != nil {
			return err
		}
		if d.State != mesh.DeviceRevoked {
			if err := s.remember(ctx, tx, mesh.ObjectDevice+string(id)); err != nil {
				return err
			}
		}
		return s.sync(tx, id)
	})
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.deviceView(ctx, id)
}

func (s *Service) deviceRemove(ctx context.Context, req admin.Ref) (admin.None, error) {
	return admin.None{}, s.change(ctx, "device.remove", func(tx *store.Tx) error {
		d, err := store.Lookup(tx, s.Store.Devices, req.Ref)
		if err != nil {
			return err
		}
		if err := store.Delete(tx, s.Store.Devices, d.ID); err != nil {
			return err
		}
		if d.State != mesh.DeviceRevoked {
			if err := s.remember(ctx, tx, mesh.ObjectDevice+string(d.ID)); err != nil {
				return err
			}
		}
		return s.sync(tx, d.ID) // a device that is gone has no routes
	})
}
