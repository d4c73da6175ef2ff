package mgmt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// cluster is this server's part in keeping the servers together: it lets others
// in, gives them their vote, and knows who is there. Each step may be done by
// several servers, or twice.
type cluster struct {
	r      *runtime
	secret mesh.Secret // "": no bootstrap secret admits anybody
	gossip *gossip.Gossip
	log    *slog.Logger
	known  chan map[mesh.ServerID]mesh.Server // holds the servers as last read
	keyed  sync.Mutex                         // held while the data keys change
}

const (
	// growTick is how often a mesh that is growing is looked at, restTick one
	// that is not.
	growTick = 300 * time.Millisecond
	restTick = 3 * time.Second
)

// blobFounding is there while servers may still come with the bootstrap secret.
const blobFounding = "founding"

func newCluster(r *runtime) *cluster {
	c := &cluster{r: r, log: r.log, known: make(chan map[mesh.ServerID]mesh.Server, 1)}
	c.known <- nil
	c.gossip = newGossip(r.srv.Config, c.peers, r.log)
	return c
}

func newGossip(c Config, peers func(context.Context) []string, log *slog.Logger) *gossip.Gossip {
	at, _ := netip.ParseAddrPort(c.gossipAddress()) // Validate has looked at it
	return &gossip.Gossip{Listen: at, Peers: peers, Log: log}
}

// setupGossip: without gossip nobody can be found.
func setupGossip(err error) error {
	if err == nil {
		return nil
	}
	return mesh.WithHint(fmt.Errorf("mgmt: %w: %w", err, mesh.ErrUnavailable), "see whether another process has the port of gossip-listen, or set it to another")
}

// run keeps the servers together until ctx ends.
func (c *cluster) run(ctx context.Context, ready func()) error {
	registered, err := c.registered(ctx)
	if err != nil {
		return err
	}
	ready()
	return together(ctx, func(ctx context.Context) error { return c.growing(ctx, registered) }, c.gossiping)
}

// registered tries to put this server on record. It fails for a server that was
// removed alone: one whose etcd takes no changes now serves all the same.
func (c *cluster) registered(ctx context.Context) (bool, error) {
	err := c.register(ctx)
	if err == nil || errors.Is(err, ErrSetup) || ctx.Err() != nil {
		return err == nil, err
	}
	c.log.Warn("own record not written", "err", err)
	return false, nil
}

func (c *cluster) growing(ctx context.Context, registered bool) error {
	for {
		if !registered {
			var err error
			if registered, err = c.registered(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		busy, err := c.grow(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Debug("servers not looked at", "err", err)
		}
		wait := restTick
		if busy {
			wait = growTick
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

// servers reads who there is, and remembers it for those who cannot wait.
func (c *cluster) servers(ctx context.Context) (map[mesh.ServerID]mesh.Server, error) {
	all, _, err := c.r.store.Servers.List(ctx)
	if err != nil {
		return nil, err
	}
	<-c.known
	c.known <- all
	return all, nil
}

// lastKnown are the servers as last read.
func (c *cluster) lastKnown() map[mesh.ServerID]mesh.Server {
	all := <-c.known
	c.known <- all
	return all
}

// name is this server's, as it is on record.
func (c *cluster) name() string {
	if s, ok := c.lastKnown()[c.r.keys.Server]; ok {
		return s.Name
	}
	return c.r.srv.Config.Name
}

// grow gives those who have caught up their vote, and says whether anybody is
// on the way.
func (c *cluster) grow(ctx context.Context) (bool, error) {
	servers, err := c.servers(ctx)
	if err != nil {
		return false, err
	}
	peers, err := c.r.etcd.member.Peers()
	if err != nil {
		return false, err
	}
	busy := false
	for _, p := range peers {
		if p.Learner {
			busy = true
			// It is refused until the learner has caught up.
			if err := c.r.etcd.member.Promote(ctx, p.ID); err != nil {
				c.log.Debug("learner not promoted yet", "err", err)
			}
		}
	}
	for id, s := range servers {
		if s.State != mesh.ServerJoining {
			continue
		}
		busy = true
		i := slices.IndexFunc(peers, func(p etcdPeer) bool { return p.URL == s.Peer && p.Name == string(id) && !p.Learner })
		if i < 0 {
			continue
		}
		if err := c.enter(ctx, s, peers[i].ID); err != nil {
			return true, err
		}
	}
	if busy {
		return true, nil
	}
	if err := c.endFounding(ctx); err != nil {
		return false, err
	}
	return c.turnRing(ctx)
}

// enter notes that a server has its vote, and tells nodes of its addresses.
func (c *cluster) enter(ctx context.Context, s mesh.Server, member string) error {
	_, err := c.change(ctx, "server.join", func(tx *store.Tx) error {
		changed := false
		err := store.Update(tx, c.r.store.Servers, s.ID, func(s *mesh.Server) error {
			changed = s.State == mesh.ServerJoining
			if changed {
				s.State, s.Member, s.Joined = mesh.ServerMember, member, c.r.now().UTC()
			}
			return nil
		})
		if err != nil || !changed {
			return errors.Join(err, errAgain)
		}
		err = store.Update(tx, c.r.store.Config, store.ConfigKey, func(cfg *mesh.Config) error {
			for _, a := range s.Addresses {
				if !slices.Contains(cfg.MgmtAddresses, a) {
					cfg.MgmtAddresses = append(slices.Clip(cfg.MgmtAddresses), a)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return tx.Event(mesh.Event{
			Type: mesh.EventServerJoined, Severity: mesh.Info, Object: "server/" + string(s.ID),
			Cause: fmt.Sprintf("management server %q is a member", s.Name),
		})
	})
	if err != nil && !errors.Is(err, errAgain) {
		return err
	}
	c.log.Info("server admitted", "server", s.ID, "name", s.Name)
	return nil
}

// endFounding ends what the bootstrap secret is good for.
func (c *cluster) endFounding(ctx context.Context) error {
	open, err := c.founding(ctx)
	if err != nil {
		return err
	}
	if open {
		_, err := c.change(ctx, "mesh.founded", func(tx *store.Tx) error {
			return store.Delete(tx, c.r.store.CA, blobFounding)
		})
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		c.log.Info("founding finished", "mesh", c.r.keys.Mesh)
	}
	return c.r.folder.formed()
}

// founding says whether servers may still come with the bootstrap secret.
func (c *cluster) founding(ctx context.Context) (bool, error) {
	_, err := c.r.store.CA.Get(ctx, blobFounding)
	if errors.Is(err, mesh.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// register puts this server on record, as it is now.
func (c *cluster) register(ctx context.Context) error {
	self := c.self()
	old := ""
	_, err := c.change(ctx, "server.register", func(tx *store.Tx) error {
		have, err := store.Get(tx, c.r.store.Servers, self.ID)
		switch {
		case errors.Is(err, mesh.ErrNotFound):
			return store.Create(tx, c.r.store.Servers, self.ID, self)
		case err != nil:
			return err
		case have.State == mesh.ServerRemoved:
			return errGone
		}
		next := self
		next.Name, next.State, next.Joined = have.Name, have.State, have.Joined
		if have.State == mesh.ServerJoining {
			next.Member = have.Member
		}
		if same(have, next) {
			return errAgain
		}
		old = have.Peer
		return store.Update(tx, c.r.store.Servers, self.ID, func(s *mesh.Server) error {
			*s = next
			return nil
		})
	})
	if err != nil && !errors.Is(err, errAgain) {
		return err
	}
	if _, err := c.servers(ctx); err != nil {
		return err
	}
	return c.readdress(ctx, self, old)
}

func same(a, b mesh.Server) bool {
	return a.Name == b.Name && a.Peer == b.Peer && a.Gossip == b.Gossip && a.Member == b.Member && slices.Equal(a.Addresses, b.Addresses)
}

// readdress tells etcd's members where this one's peer port has moved to.
func (c *cluster) readdress(ctx context.Context, self mesh.Server, old string) error {
	peers, err := c.r.etcd.member.Peers()
	if err != nil {
		return err
	}
	for _, p := range peers {
		if p.ID == self.Member && p.URL != self.Peer {
			c.log.Info("peer address changed", "from", old, "to", self.Peer)
			return c.r.etcd.member.Readdress(ctx, p.ID, self.Peer)
		}
	}
	return nil
}

// self is this server as it is now.
func (c *cluster) self() mesh.Server {
	status, _ := c.r.etcd.status() // it runs: the store has been opened on it
	conf := c.r.srv.Config
	return mesh.Server{
		ID: c.r.keys.Server, Name: conf.Name, Addresses: c.r.advertised, Peer: conf.peerURL(), Gossip: conf.gossipAddress(),
		Member: status.Member, State: mesh.ServerMember, Joined: c.r.now().UTC(),
	}
}

func (c *cluster) change(ctx context.Context, action string, f func(*store.Tx) error) (store.Rev, error) {
	return c.r.store.Change(ctx, store.By{Actor: "system:servers"}, action, f)
}

// lines are the servers as status shows them.
func (c *cluster) lines() []admin.ServerLine {
	here := map[mesh.ServerID]bool{c.r.keys.Server: true}
	for _, m := range c.gossip.Members() {
		if m.Mesh == c.r.keys.Mesh {
			here[m.Server] = true
		}
	}
	peers, err := c.r.etcd.member.Peers()
	if err != nil {
		peers = nil // status says so
	}
	var out []admin.ServerLine
	for id, s := range c.lastKnown() {
		l := admin.ServerLine{Server: s, Here: here[id]}
		for _, p := range peers {
			if p.ID == s.Member {
				l.Leader, l.Votes = p.Leader, !p.Learner
			}
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b admin.ServerLine) int { return cmpNames(a.Name, b.Name) })
	return out
}
