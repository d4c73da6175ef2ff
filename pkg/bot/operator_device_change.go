package bot

import (
	"context"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions that change a device.
const (
	actDeviceLink    = "dk"
	actDeviceRotated = "dR"
	actDeviceState   = "ds"
	actDeviceEnded   = "dV"
	actDeviceReset   = "dt"
)

func opDeviceChanges() Routes {
	return Routes{
		Commands: []Command{operates("device", verbs("device", func(ctx context.Context, s *Session, ref string) error { return deviceCard(ctx, s, ref, "") }, map[string]verb{
			"add": needs(3, "device", func(ctx context.Context, s *Session, words []string) error {
				return createDevice(ctx, s, admin.DeviceAddRequest{Member: words[0], Name: words[1], Cell: words[2]})
			}),
			"move": needs(2, "device", func(ctx context.Context, s *Session, words []string) error {
				return moveDevice(ctx, s, admin.DeviceSetRequest{Ref: words[0], Cell: &words[1]})
			}),
			"limit": needs(3, "device", func(ctx context.Context, s *Session, words []string) error {
				return limitDevice(ctx, s, words[0], words[1], words[2])
			}),
			"link":   one(linkDevice),
			"rotate": one(offerRotate),
			"reset":  one(resetDevice),
			"suspend": one(func(ctx context.Context, s *Session, ref string) error {
				return setDeviceState(ctx, s, ref, mesh.DeviceSuspended)
			}),
			"resume": one(func(ctx context.Context, s *Session, ref string) error {
				return setDeviceState(ctx, s, ref, mesh.DeviceActive)
			}),
			"revoke": one(endDevice),
		}))},
		Actions: []Action{
			deed(actDeviceLink, func(ctx context.Context, s *Session, args []string) error {
				return newLink(ctx, s, arg(args, 0), arg(args, 1) != "")
			}),
			deed(actDeviceRotated, func(ctx context.Context, s *Session, args []string) error {
				return rotateDevice(ctx, s, arg(args, 0), arg(args, 1) == "s")
			}),
			deed(actDeviceState, func(ctx context.Context, s *Session, args []string) error {
				return setDeviceState(ctx, s, arg(args, 0), mesh.DeviceState(arg(args, 1)))
			}),
			deed(actDeviceEnded, by(revokeDevice)),
			deed(actDeviceReset, by(resetDevice)),
		},
	}
}

// linkDevice makes a link, and asks first when there is one.
func linkDevice(ctx context.Context, s *Session, ref string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	switch {
	case err != nil:
		return err
	case !d.Linked.IsZero():
		return offerLink(ctx, s, string(d.ID))
	}
	return newLink(ctx, s, string(d.ID), false)
}

func newLink(ctx context.Context, s *Session, id string, replace bool) error {
	if err := s.SecretsAllowed(); err != nil {
		return err
	}
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: id})
	if err != nil {
		return err
	}
	link, err := Call(ctx, s, admin.DeviceSubscribe, admin.DeviceSubscribeRequest{Ref: id, Replace: replace})
	switch {
	case Done(err): // of a link only a hash is kept
		return deviceCard(ctx, s, id, s.T.HTML("op.device.link-made", "name", d.Name))
	case mesh.Kind(err) == mesh.ErrExists: // somebody else made one meanwhile
		return offerLink(ctx, s, id)
	case err != nil:
		return err
	}
	return sendLink(ctx, s, d, link)
}

func rotateDevice(ctx context.Context, s *Session, id string, secret bool) error {
	done := "renamed"
	if secret {
		done = "resecret"
	}
	_, err := Call(ctx, s, admin.DeviceRotate, admin.DeviceRotateRequest{Ref: id, Label: !secret, Secret: secret})
	return s.after(err, done, func(note string) error { return deviceCard(ctx, s, id, note) })
}

func setDeviceState(ctx context.Context, s *Session, ref string, state mesh.DeviceState) error {
	done := "suspended"
	if state == mesh.DeviceActive {
		done = "resumed"
	}
	_, err := Call(ctx, s, admin.DeviceSet, admin.DeviceSetRequest{Ref: ref, State: &state})
	return s.after(err, done, func(note string) error { return deviceCard(ctx, s, ref, note) })
}

func revokeDevice(ctx context.Context, s *Session, id string) error {
	_, err := Call(ctx, s, admin.DeviceRevoke, admin.RevokeRequest{Ref: id})
	return s.after(err, "revoked", func(note string) error { return deviceCard(ctx, s, id, note) })
}

func resetDevice(ctx context.Context, s *Session, ref string) error {
	_, err := Call(ctx, s, admin.DeviceResetTraffic, admin.Ref{Ref: ref})
	return s.after(err, "reset", func(note string) error { return deviceCard(ctx, s, ref, note) })
}
