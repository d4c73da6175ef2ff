package mgmt

import (
	"context"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
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
	ring, err := c.ring(ctx)
	if err != nil {
		return err
	}
	if err := c.useRing(ring); err != nil {
		return err
	}
	return together(ctx,
		func(ctx context.Context) error { return setupGossip(c.gossip.Run(ctx, func() {})) },
		c.turning)
}

// useRing takes the keyring, and tells the others once it has it.
func (c *cluster) useRing(k keyring) error {
	if err := c.gossip.SetKeys(k.keys); err != nil {
		return err
	}
	f := c.facts()
	f.Ring = k.mark()
	return c.gossip.SetFacts(f)
}

// turning follows the keyring: when founding is over, the key that is made from
// the bootstrap secret goes, and when a server was removed, the key that it had.
// The others do the same within a moment; who still has the old key first is
// understood by those who have both.
func (c *cluster) turning(ctx context.Context) error {
	wait := restTick
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		ring, err := c.ring(ctx)
		if err == nil {
			err = c.useRing(ring)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Debug("gossip keys not read", "err", err)
		}
		wait = restTick
		if ring.next || ring.old {
			wait = growTick
		}
	}
}

// facts are what gossip tells of this server.
func (c *cluster) facts() gossip.Facts {
	return gossip.Facts{
		Server: c.r.keys.Server, Name: c.name(), Mesh: c.r.keys.Mesh, Version: c.r.srv.Version, State: "serving",
		Address: c.r.advertised[0], Peer: c.r.srv.Config.peerURL(),
	}
}
