package adminsvc

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxOverlap is far beyond what any client sleeps.
const maxOverlap = 90 * 24 * time.Hour

func (s *Service) deviceRotate(ctx context.Context, req admin.DeviceRotateRequest) (admin.DeviceView, error) {
	id, err := s.rotateDevice(ctx, req)
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.servedView(ctx, id)
}

func (s *Service) rotateDevice(ctx context.Context, req admin.DeviceRotateRequest) (mesh.DeviceID, error) {
	if !req.Label && !req.Secret {
		return "", fmt.Errorf("admin: rotate device: want the label or the secret: %w", mesh.ErrInvalid)
	}
	overlap, err := s.overlap(ctx, req.Overlap)
	if err != nil {
		return "", err
	}
	defer s.Store.Sealing()()
	var id mesh.DeviceID
	err = s.change(ctx, "device.rotate", func(tx *store.Tx) error {
		d, err := store.Lookup(tx, s.Store.Devices, req.Ref)
		if err != nil {
			return err
		}
		if d.State == mesh.DeviceRevoked {
			return mesh.WithHint(fmt.Errorf("admin: device %s is revoked: %w", d.Name, mesh.ErrConflict), "add a new device")
		}
		id = d.ID
		err = store.Update(tx, s.Store.Devices, id, func(d *mesh.Device) error {
			if req.Label {
				d.RotateLabel(s.now(), overlap)
			}
			if req.Secret {
				return s.giveSecret(d)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return s.sync(tx, id)
	})
	return id, err
}

// giveSecret makes a device's secret and what cores check it by.
func (s *Service) giveSecret(d *mesh.Device) error {
	secret := mesh.NewSecret(secretBytes)
	d.Verifiers = mesh.NewVerifiers(d.ID, secret)
	var err error
	d.Secret, err = s.Store.Seal(store.DeviceSecretPlace(d.ID), secret)
	return err
}

// overlap is for how long what is replaced works, which nil leaves to the
// configuration.
func (s *Service) overlap(ctx context.Context, asked *mesh.Duration) (time.Duration, error) {
	if asked == nil {
		cfg, err := s.configGet(ctx, admin.None{})
		return cfg.Labels.OverlapOrDefault(), err
	}
	if *asked < 0 || time.Duration(*asked) > maxOverlap {
		return 0, fmt.Errorf("admin: overlap %v: want 0 (none) to %v: %w", *asked, maxOverlap, mesh.ErrInvalid)
	}
	return time.Duration(*asked), nil
}

// overlapEnd is when what is replaced now ends, as the configuration has it.
func (s *Service) overlapEnd(tx *store.Tx) (time.Time, error) {
	cfg, err := store.Get(tx, s.Store.Config, store.ConfigKey)
	return s.now().Add(cfg.Labels.OverlapOrDefault()), ignoreAbsent(err)
}

// deviceResetTraffic has what a device moves count against its limit from now on.
// What cores have not reported yet counts already, half a minute of it at most.
func (s *Service) deviceResetTraffic(ctx context.Context, req admin.Ref) (admin.DeviceView, error) {
	traffic, err := s.Store.Traffic(ctx)
	if err != nil {
		return admin.DeviceView{}, err
	}
	var id mesh.DeviceID
	err = s.change(ctx, "device.reset-traffic", func(tx *store.Tx) error {
		d, err := store.Lookup(tx, s.Store.Devices, req.Ref)
		if err != nil {
			return err
		}
		id = d.ID
		err = store.Update(tx, s.Store.Devices, id, func(d *mesh.Device) error {
			d.Reset = mesh.TrafficReset{At: s.now(), Used: traffic.Devices[id].Traffic}
			return nil
		})
		if err != nil {
			return err
		}
		return s.sync(tx, id)
	})
	if err != nil {
		return admin.DeviceView{}, err
	}
	return s.servedView(ctx, id)
}
