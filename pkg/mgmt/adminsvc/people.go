package adminsvc

import (
	"context"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// What members do for themselves over the bot is made of the same pieces. Whether
// they may, and for which device, the caller has looked at.

// NewDevice makes a device that PlaceDevice stores.
func (s *Service) NewDevice(name string, limits mesh.Limits) (mesh.Device, error) {
	return s.newDevice(admin.DeviceAddRequest{Name: name, Limits: limits})
}

// Member shows a member and their devices.
func (s *Service) Member(ctx context.Context, id mesh.MemberID) (admin.MemberView, error) {
	return s.memberGet(ctx, admin.Ref{Ref: string(id)})
}

// ServedDevice shows a device, as soon as it is served as far as it can be.
func (s *Service) ServedDevice(ctx context.Context, id mesh.DeviceID) (admin.DeviceView, error) {
	return s.servedView(ctx, id)
}

// Subscribe makes the link of a device.
func (s *Service) Subscribe(ctx context.Context, req admin.DeviceSubscribeRequest) (admin.SubscriptionLink, error) {
	return s.deviceSubscribe(ctx, req)
}

// Linkable says what is missing before any link leads anywhere.
func (s *Service) Linkable(ctx context.Context) error {
	cfg, err := s.configAsTold(ctx)
	if err != nil {
		return err
	}
	return linkable(cfg, "DEVICE")
}

// Rotate gives a device another secret and another name, at once.
func (s *Service) Rotate(ctx context.Context, id mesh.DeviceID) error {
	_, err := s.rotateDevice(ctx, admin.DeviceRotateRequest{Ref: string(id), Label: true, Secret: true, Overlap: new(mesh.Duration)})
	return err
}

// CoresOf shows the cores that a member owns.
func (s *Service) CoresOf(ctx context.Context, id mesh.MemberID) ([]admin.CoreView, error) {
	show, err := s.coreViewer(ctx)
	if err != nil {
		return nil, err
	}
	all, _, err := s.Store.Cores.List(ctx)
	var out []admin.CoreView
	for _, c := range all {
		if c.Member == id {
			out = append(out, show(c))
		}
	}
	slices.SortFunc(out, func(a, b admin.CoreView) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}
