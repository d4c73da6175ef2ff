package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Config is what a Client needs.
type Config struct {
	// Addresses are host:port of the mesh ports, asked anew at each lookup.
	Addresses func() []string
	// Node is who asks, and Revocations whom it no longer believes.
	Node        *identity.Node
	Revocations *identity.Revocations
	// PerTry bounds one question to one server; there are two tries, with
	// several servers at up to three of them. 0: 300 ms.
	PerTry time.Duration
	// StaleFor is how long an answer may be used after it was given, when no
	// server answers. Nil: not at all.
	StaleFor func() time.Duration
	// Remember is for how many names an answer is kept. 0: 100,000.
	Remember int
	// TargetIdle is how long a target is watched after it was last asked for.
	// 0: 10 min. Resync is how often everything watched is read and compared
	// anew. 0: 5 min.
	TargetIdle, Resync time.Duration
	// OnTarget, if set, is called by Run, one call at a time, when a target
	// that was asked for changed. Of a deleted one only the id is sure.
	OnTarget func(t mesh.Target, deleted bool)
	Metrics  prometheus.Registerer // nil: none
	Log      *slog.Logger
}

func (c *Config) defaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.PerTry, 300*time.Millisecond)
	def(&c.TargetIdle, 10*time.Minute)
	def(&c.Resync, 5*time.Minute)
	if c.Remember == 0 {
		c.Remember = 100_000
	}
	if c.StaleFor == nil {
		c.StaleFor = func() time.Duration { return 0 }
	}
	if c.OnTarget == nil {
		c.OnTarget = func(mesh.Target, bool) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Client answers lookups of routes.
type Client struct {
	cfg     Config
	servers servers
	calls   singleflight.Group
	memory  memory
	table   table
	metrics *metrics
}

// Dial makes a Client. It connects in the background; what is wrong with a
// server shows in Lookup. Run has to run beside the lookups.
func Dial(cfg Config) (*Client, error) {
	cfg.defaults()
	c := &Client{
		cfg:    cfg,
		memory: memory{most: cfg.Remember},
		table:  table{known: map[string]*known{}, wake: make(chan struct{}, 1)},
	}
	expect := mesh.Identity{Mesh: cfg.Node.Identity().Mesh, Role: mesh.RoleMgmt}
	c.servers.creds = newRevocable(cfg.Node.ClientTLS(expect, cfg.Revocations, identity.ProtoGRPC), cfg.Revocations)
	c.metrics = newMetrics(&c.servers)
	if err := c.metrics.all().Register(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("gateway: register metrics: %w", err)
	}
	if _, err := c.servers.update(cfg.Addresses()); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connections. Run has to have returned.
func (c *Client) Close() error {
	c.metrics.all().Unregister(c.cfg.Metrics)
	_, err := c.servers.update(nil)
	return err
}

// Lookup returns the route of a server name and what is known of its hops, in
// their order; a hop without a target is left out. Callers share what they get
// and do not modify it. The errors are ErrNotFound, ErrDenied (a server
// answered that this node may not ask) and ErrUnavailable. Equal names asked
// for at the same time are one question; ctx does not cut it short, it ends
// within a few tries' time by itself.
func (c *Client) Lookup(ctx context.Context, name mesh.ServerName) (mesh.Route, []mesh.Target, error) {
	if c.servers.gone() {
		r, err := c.stale(name, errNobody)
		return r.route, r.targets, err
	}
	v, err, _ := c.calls.Do(string(name), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*c.cfg.PerTry)
		defer cancel()
		return c.lookUp(ctx, name)
	})
	r := v.(result)
	return r.route, r.targets, err
}

type result struct {
	route   mesh.Route
	targets []mesh.Target
}

func (c *Client) lookUp(ctx context.Context, name mesh.ServerName) (result, error) {
	start := time.Now()
	defer func() { c.metrics.took.Observe(time.Since(start).Seconds()) }()
	a, err := c.route(ctx, name)
	if errors.Is(err, mesh.ErrNotFound) {
		c.memory.forget(name)
	}
	var found map[string]mesh.Target
	if err == nil {
		c.memory.put(name, a)
		found, err = c.targets(ctx, a)
	}
	switch {
	case errors.Is(err, mesh.ErrUnavailable):
		return c.stale(name, err)
	case err != nil:
		c.metrics.count(err)
		return result{}, err
	}
	c.metrics.count(nil)
	return result{a.route, inOrder(a.route, found)}, nil
}

// stale gives the last answer again, or refuses with cause.
func (c *Client) stale(name mesh.ServerName, cause error) (result, error) {
	a, ok := c.memory.get(name)
	if !ok || time.Since(a.at) > c.cfg.StaleFor() {
		c.metrics.count(mesh.ErrUnavailable)
		if errors.Is(cause, mesh.ErrUnavailable) {
			return result{}, cause
		}
		return result{}, fmt.Errorf("gateway: look up route: %w: %w", cause, mesh.ErrUnavailable)
	}
	c.metrics.lookups.WithLabelValues("stale").Inc()
	return result{a.route, inOrder(a.route, c.table.last(hopIDs(a.route)))}, nil
}

func hopIDs(r mesh.Route) []string {
	ids := make([]string, len(r.Hops))
	for i, h := range r.Hops {
		ids[i] = h.ID
	}
	return ids
}

func inOrder(r mesh.Route, found map[string]mesh.Target) []mesh.Target {
	out := make([]mesh.Target, 0, len(r.Hops))
	for _, h := range r.Hops {
		if t, ok := found[h.ID]; ok {
			out = append(out, t)
		}
	}
	return out
}
