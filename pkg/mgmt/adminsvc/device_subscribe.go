package adminsvc

import (
	"context"
	"fmt"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// linkBytes of randomness make the secret of a subscription link.
const linkBytes = 24

// deviceSubscribe makes the link and shows it this once: only its hash is kept.
func (s *Service) deviceSubscribe(ctx context.Context, req admin.DeviceSubscribeRequest) (admin.SubscriptionLink, error) {
	cfg, err := s.configAsTold(ctx)
	if err != nil {
		return admin.SubscriptionLink{}, err
	}
	if err := linkable(cfg, req.Ref); err != nil {
		return admin.SubscriptionLink{}, err
	}
	secret := mesh.NewSecret(linkBytes)
	var out admin.SubscriptionLink
	err = s.change(ctx, "device.subscribe", func(tx *store.Tx) error {
		d, err := store.Lookup(tx, s.Store.Devices, req.Ref)
		if err != nil {
			return err
		}
		had := d.Subscription.Hash != ""
		switch {
		case d.State == mesh.DeviceRevoked:
			return mesh.WithHint(fmt.Errorf("admin: device %s is revoked: %w", d.Name, mesh.ErrConflict), "add a new device")
		case had && !req.Replace:
			return mesh.WithHint(fmt.Errorf("admin: device %s has a link, of which only a hash is kept: %w", d.Name, mesh.ErrExists),
				"make another one, which ends the first: meshctl admin device link "+string(d.ID)+" --replace")
		}
		out = admin.SubscriptionLink{Device: d.ID, URL: cfg.SubscriptionURL(secret), Replaced: had}
		return store.Update(tx, s.Store.Devices, d.ID, func(d *mesh.Device) error {
			d.Subscription = mesh.DeviceSubscription{Hash: mesh.SubscriptionHash(secret), Created: s.now()}
			return nil
		})
	})
	if err != nil {
		return admin.SubscriptionLink{}, err
	}
	st, err := s.subStatusGet(context.WithoutCancel(ctx), admin.None{})
	if err != nil { // the link is made, and shown this once
		s.Log.Debug("state of the subscription service not read", "err", err)
	}
	out.Warnings = st.Warnings
	return out, nil
}

// linkable says what is missing before a link leads anywhere.
func linkable(cfg mesh.Config, ref string) error {
	switch {
	case cfg.Subscription.Name == "":
		return mesh.WithHint(fmt.Errorf("admin: the subscription service has no name: %w", mesh.ErrConflict),
			"give it one that resolves like the entries (meshctl admin config set subscription.name=sub.example.net), or set up the client by hand: meshctl admin device link "+mesh.Quotable(ref)+" --credentials")
	case cfg.SubscriptionBase() == "":
		return mesh.WithHint(fmt.Errorf("admin: no address of an entry is configured: %w", mesh.ErrConflict),
			"meshctl admin config set entryAddresses=HOST:PORT")
	}
	return nil
}
