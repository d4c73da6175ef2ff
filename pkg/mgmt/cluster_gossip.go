package mgmt

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/embedded"
)

type etcdPeer = embedded.Peer

func cmpNames(a, b string) int { return strings.Compare(a, b) }

// peers are the gossip addresses of the other servers.
func (c *cluster) peers(context.Context) []string {
	out := gossipPeers(c.r.srv.Config.Peers)
	for id, s := range c.lastKnown() {
		if id != c.r.keys.Server && s.State != mesh.ServerRemoved && s.Gossip != "" {
			out = append(out, s.Gossip)
		}
	}
	return out
}

// gossiping takes part in gossip once there is somebody to gossip with. It is a
// hint only: without it the server goes on, and says so.
func (c *cluster) gossiping(ctx context.Context) error {
	tick := time.NewTicker(restTick)
	defer tick.Stop()
	for len(c.peers(ctx)) == 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	said := ""
	for {
		if err := c.gossipOnce(ctx); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			c.log.Warn("gossip not running", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c *cluster) gossipOnce(ctx context.Context) error {
	keys, err := c.ring(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(c.gossip.SetKeys(keys), c.gossip.SetFacts(c.facts())); err != nil {
		return err
	}
	return together(ctx,
		func(ctx context.Context) error { return setupGossip(c.gossip.Run(ctx, func() {})) },
		c.turning)
}

// turning follows the keyring: when founding is over, the key that is made from
// the bootstrap secret goes. The others do the same within a moment; who still
// has the old key first is understood by those who have both.
func (c *cluster) turning(ctx context.Context) error {
	tick := time.NewTicker(restTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		keys, err := c.ring(ctx)
		if err == nil {
			err = c.gossip.SetKeys(keys)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Debug("gossip keys not read", "err", err)
		}
	}
}

// ring is the keyring of now: during founding first the key that those who are
// not in yet have.
func (c *cluster) ring(ctx context.Context) ([][]byte, error) {
	key, err := c.gossipKey(ctx)
	if err != nil {
		return nil, err
	}
	open, err := c.founding(ctx)
	if err != nil {
		return nil, err
	}
	if open && c.secret != "" {
		return [][]byte{bootstrapGossipKey(c.secret), key}, nil
	}
	return [][]byte{key}, nil
}

// gossipKey reads the mesh's key of gossip, and makes it when there is none.
func (c *cluster) gossipKey(ctx context.Context) ([]byte, error) {
	b, err := c.r.store.CA.Get(ctx, blobGossip)
	if errors.Is(err, mesh.ErrNotFound) {
		sealed, err := c.r.store.Seal(store.BlobPlace(blobGossip), mesh.NewSecret(gossip.KeySize))
		if err != nil {
			return nil, err
		}
		_, err = c.change(ctx, "gossip.key", func(tx *store.Tx) error {
			return store.Create(tx, c.r.store.CA, blobGossip, store.Blob{Data: []byte(sealed), Created: c.r.now().UTC()})
		})
		if err != nil && !errors.Is(err, mesh.ErrExists) {
			return nil, err
		}
		b, err = c.r.store.CA.Get(ctx, blobGossip)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	secret, err := c.r.store.Unseal(store.BlobPlace(blobGossip), mesh.Sealed(b.Value.Data))
	if err != nil {
		return nil, err
	}
	key, err := base64.RawURLEncoding.DecodeString(secret.Reveal())
	if err != nil || len(key) != gossip.KeySize {
		return nil, fmt.Errorf("mgmt: read gossip key: it is damaged: %w", mesh.ErrInvalid)
	}
	return key, nil
}

// facts are what gossip tells of this server.
func (c *cluster) facts() gossip.Facts {
	return gossip.Facts{
		Server: c.r.keys.Server, Name: c.name(), Mesh: c.r.keys.Mesh, Version: c.r.srv.Version, State: "serving",
		Address: c.r.advertised[0], Peer: c.r.srv.Config.peerURL(),
	}
}
