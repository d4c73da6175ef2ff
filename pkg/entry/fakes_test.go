package entry_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/pkg/entry/entrytest"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// routes is a Router of a map.
type routes struct {
	mu      sync.Mutex // guards the rest
	routes  map[mesh.ServerName]mesh.Route
	targets map[string]mesh.Target
	silent  bool
	asked   int
}

func newRoutes() *routes {
	return &routes{routes: map[mesh.ServerName]mesh.Route{}, targets: map[string]mesh.Target{}}
}

func (r *routes) Lookup(_ context.Context, n mesh.ServerName) (mesh.Route, []mesh.Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	route, ok := r.routes[n]
	switch {
	case !ok && r.silent:
		return mesh.Route{}, nil, fmt.Errorf("test: %w", mesh.ErrUnavailable)
	case !ok:
		return mesh.Route{}, nil, fmt.Errorf("test: %w", mesh.ErrNotFound)
	}
	var ts []mesh.Target
	for _, h := range route.Hops {
		if t, ok := r.targets[h.ID]; ok {
			ts = append(ts, t)
		}
	}
	return route, ts, nil
}

func (r *routes) put(route mesh.Route, targets ...mesh.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range targets {
		r.targets[t.ID] = t
		route.Hops = append(route.Hops, mesh.Hop{Kind: t.Kind, ID: t.ID})
	}
	r.routes[route.Name] = route
}

func (r *routes) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func TestTheFakeRouterKeepsTheContract(t *testing.T) {
	entrytest.Router(t, func(*testing.T) entrytest.World {
		r := newRoutes()
		locked := func(f func()) { r.mu.Lock(); defer r.mu.Unlock(); f() }
		return entrytest.World{
			Router:       r,
			PutRoute:     func(x mesh.Route) { locked(func() { r.routes[x.Name] = x }) },
			DeleteRoute:  func(n mesh.ServerName) { locked(func() { delete(r.routes, n) }) },
			PutTarget:    func(x mesh.Target) { locked(func() { r.targets[x.ID] = x }) },
			DeleteTarget: func(id string) { locked(func() { delete(r.targets, id) }) },
			Silence:      func() { locked(func() { r.silent = true }) },
		}
	})
}

// core is a core as far as an entry can see: a relay listener. What it does
// with a stream is serve's matter; nil echoes.
type core struct {
	target mesh.Target
	revs   *identity.Revocations
	kill   func()

	mu      sync.Mutex // guards headers
	headers []relay.Header
}

func startCore(t testing.TB, ca *identitytest.Mesh, serve func(*relay.Incoming)) *core {
	return startCoreAs(t, ca, ca.Identity(mesh.RoleCore), serve)
}

func startCoreAs(t testing.TB, ca *identitytest.Mesh, id mesh.Identity, serve func(*relay.Incoming)) *core {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if serve == nil {
		serve = echo
	}
	addr := netip.MustParseAddrPort(ln.Addr().String())
	c := &core{
		revs:   ca.Revocations(t),
		target: mesh.TargetOf(ca.ID, mesh.Core{ID: mesh.CoreID(id.ID), State: mesh.CoreReady, Addresses: []netip.AddrPort{addr}}, relay.ALPN),
	}
	cfg := ca.NodeAs(t, id).ServerTLS(identity.Policy{Revocations: c.revs, Accept: identity.RelayPort().Accept}, relay.ALPN)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.kill = sync.OnceFunc(func() {
		cancel()
		ln.Close()
		wg.Wait()
	})
	t.Cleanup(c.kill)
	wg.Go(func() {
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.session(ctx, tls.Server(raw, cfg), serve) })
		}
	})
	return c
}

func (c *core) session(ctx context.Context, conn *tls.Conn, serve func(*relay.Incoming)) {
	stop := context.AfterFunc(ctx, func() { relay.Abort(conn, relay.CodeUnspecified) })
	defer stop()
	if err := conn.HandshakeContext(ctx); err != nil {
		relay.Abort(conn, relay.CodeUnspecified)
		return
	}
	s := relay.Server(conn, relay.Config{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) }) // how it ended is not this test's matter
	for {
		in, err := s.Accept(ctx)
		if err != nil {
			break
		}
		c.mu.Lock()
		c.headers = append(c.headers, in.Header())
		c.mu.Unlock()
		wg.Go(func() { serve(in) })
	}
	wg.Wait()
}

func (c *core) seen() []relay.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// echo sends back what comes and ends when its peer does.
func echo(in *relay.Incoming) {
	st, err := in.Accept()
	if err != nil {
		return
	}
	if _, err := io.Copy(st, st); err != nil {
		st.Reset(relay.CodePeerReset)
		return
	}
	_ = st.Close() // also sends FIN
}

func refuse(code relay.Code, retryable bool) func(*relay.Incoming) {
	return func(in *relay.Incoming) { _ = in.Refuse(code, retryable, "test") }
}
