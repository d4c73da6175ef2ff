// Package gossip tells the management servers of one mesh which of the others
// are there, within about a second and a half, and carries small facts about
// each. It is a hint and never a source of truth: whoever acts on it checks.
//
// Everything is encrypted under a keyring, and what comes from an address that
// is not a configured peer is dropped before it is read.
package gossip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// KeySize is the size of a key of the ring, in bytes.
const KeySize = 32

// maxFacts is what memberlist carries about each server, in bytes.
const maxFacts = memberlist.MetaMaxSize

// Facts is what a server tells of itself. All of it is a claim of whoever has
// the key.
type Facts struct {
	Server  mesh.ServerID `json:"i"`
	Name    string        `json:"n"`
	Mesh    mesh.ID       `json:"m,omitzero"` // "" while it belongs to none
	Version string        `json:"v,omitzero"`
	State   string        `json:"s,omitzero"`
	// Address is host:port of its mesh port, Peer the URL of its etcd.
	Address string `json:"a,omitzero"`
	Peer    string `json:"p,omitzero"`
	// Ring is a mark of the keyring it has, the same for the same keys.
	Ring string `json:"r,omitzero"`
}

// Seen is a server that is there now.
type Seen struct {
	Facts
	From netip.AddrPort // where its gossip is
}

// Gossip is one server's part. Set the fields, then call Run once.
type Gossip struct {
	// Listen is one address and a port, for TCP and UDP.
	Listen netip.AddrPort
	// Keys is the keyring, KeySize bytes each; the first encrypts.
	Keys [][]byte
	// Facts are about this server. SetFacts changes them.
	Facts Facts
	// Peers are host:port of the other servers, asked again and again.
	Peers func(context.Context) []string
	Log   *slog.Logger

	mu      sync.Mutex // guards what follows
	list    *memberlist.Memberlist
	ring    *memberlist.Keyring
	allowed map[netip.AddrPort]bool
	there   map[string]node // by memberlist's name
	foreign map[netip.Addr]time.Time
	changed chan struct{}
}

// node is what memberlist told of one server. Its own list is not read, since
// it changes what it has given out (Memberlist.Members, state.go).
type node struct {
	meta []byte
	addr netip.AddrPort
}

const (
	rejoinEach = time.Second
	leaveTime  = 300 * time.Millisecond
	// foreignFor is how long a server with another key is remembered.
	foreignFor = 10 * time.Second
)

// Run takes part until ctx ends. It calls ready once it listens.
func (g *Gossip) Run(ctx context.Context, ready func()) error {
	if g.Log == nil {
		g.Log = slog.New(slog.DiscardHandler)
	}
	if err := g.start(ctx); err != nil {
		return fmt.Errorf("gossip: start: %w", err)
	}
	ready()
	tick := time.NewTicker(rejoinEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return g.stop()
		case <-tick.C:
			g.rejoin(ctx)
		}
	}
}

func (g *Gossip) start(ctx context.Context) error {
	ring, err := memberlist.NewKeyring(g.Keys, g.Keys[0])
	if err != nil {
		return err
	}
	g.setPeers(ctx)
	quiet := log.New(writer{g}, "", 0)
	net, err := newTransport(g.Listen, quiet, g.knows)
	if err != nil {
		return err
	}
	list, err := memberlist.Create(g.config(ring, net, quiet))
	if err != nil {
		return errors.Join(err, net.Shutdown())
	}
	g.mu.Lock()
	g.list, g.ring = list, ring
	g.mu.Unlock()
	g.rejoin(ctx)
	return nil
}

// config is tuned to notice a dead server within about a second and a half.
func (g *Gossip) config(ring *memberlist.Keyring, net memberlist.Transport, quiet *log.Logger) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = string(g.Facts.Server)
	c.BindAddr, c.BindPort = g.Listen.Addr().String(), int(g.Listen.Port())
	c.AdvertiseAddr, c.AdvertisePort = c.BindAddr, c.BindPort
	c.Transport, c.Keyring, c.Logger = net, ring, quiet
	c.Label = "meshctl"
	c.ProbeInterval, c.ProbeTimeout = 300*time.Millisecond, 150*time.Millisecond
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = 2, 1
	c.GossipInterval, c.PushPullInterval = 100*time.Millisecond, 5*time.Second
	c.TCPTimeout = 2 * time.Second
	// A server that was restarted comes back under its own name at once.
	c.DeadNodeReclaimTime = time.Millisecond
	d := delegate{g}
	c.Delegate, c.Events, c.Alive = d, d, d
	return c
}

func (g *Gossip) stop() error {
	g.mu.Lock()
	list := g.list
	g.list = nil
	g.mu.Unlock()
	if err := list.Leave(leaveTime); err != nil {
		g.Log.Debug("gossip not told goodbye", "err", err)
	}
	if err := list.Shutdown(); err != nil {
		return fmt.Errorf("gossip: stop: %w", err)
	}
	return nil
}

// rejoin looks for configured peers that are not there.
func (g *Gossip) rejoin(ctx context.Context) {
	g.setPeers(ctx)
	g.mu.Lock()
	list := g.list
	missing := make(map[netip.AddrPort]bool, len(g.allowed))
	for a := range g.allowed {
		missing[a] = a != g.Listen
	}
	for _, n := range g.there {
		missing[n.addr] = false
	}
	g.mu.Unlock()
	for a, away := range missing {
		if !away {
			continue
		}
		if _, err := list.Join([]string{a.String()}); err != nil {
			g.Log.Debug("peer not reached", "addr", a, "err", err)
		}
	}
}

// Members are the servers that are there, this one too.
func (g *Gossip) Members() []Seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.list == nil {
		return nil
	}
	var out []Seen
	for name, n := range g.there {
		if f, err := parseFacts(n.meta); err == nil && string(f.Server) == name {
			out = append(out, Seen{f, n.addr})
		}
	}
	slices.SortFunc(out, func(a, b Seen) int { return strings.Compare(a.Name+" "+string(a.Server), b.Name+" "+string(b.Server)) })
	return out
}

// Foreign are addresses from which something came lately that none of the keys
// opens: somebody there has another secret.
func (g *Gossip) Foreign() []netip.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []netip.Addr
	for a, at := range g.foreign {
		if time.Since(at) < foreignFor {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// SetFacts tells the others something new. It returns ErrInvalid when it is too
// long to be told.
func (g *Gossip) SetFacts(f Facts) error {
	if b, err := json.Marshal(f); err != nil || len(b) > maxFacts {
		return fmt.Errorf("gossip: facts of %d bytes, at most %d: %w", len(b), maxFacts, mesh.ErrInvalid)
	}
	g.mu.Lock()
	same := g.Facts == f
	g.Facts = f
	list := g.list
	g.mu.Unlock()
	if list == nil || same {
		return nil
	}
	if err := list.UpdateNode(0); err != nil {
		return fmt.Errorf("gossip: tell facts: %w", err)
	}
	return nil
}

// SetKeys replaces the keyring; the first encrypts from now on.
func (g *Gossip) SetKeys(keys [][]byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Keys = keys
	if g.ring == nil {
		return nil
	}
	for _, k := range keys {
		if err := g.ring.AddKey(k); err != nil {
			return fmt.Errorf("gossip: set keys: %w", err)
		}
	}
	if err := g.ring.UseKey(keys[0]); err != nil {
		return fmt.Errorf("gossip: set keys: %w", err)
	}
	for _, k := range g.ring.GetKeys() {
		if !slices.ContainsFunc(keys, func(x []byte) bool { return slices.Equal(x, k) }) {
			if err := g.ring.RemoveKey(k); err != nil {
				return fmt.Errorf("gossip: set keys: %w", err)
			}
		}
	}
	return nil
}

// Changed returns a channel that is closed when a server comes, goes or tells
// something new.
func (g *Gossip) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}
