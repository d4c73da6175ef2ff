package gateway_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/entry/entrytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/gateway"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// What the entry relies on holds for this Router as for its fakes.
func TestTheClientKeepsTheRoutersContract(t *testing.T) {
	m := startMgmt(t)
	entrytest.Router(t, func(t *testing.T) entrytest.World {
		if _, err := m.etcd.Delete(t.Context(), "/", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		l := storetest.NewLink(t, m.addr)
		remove := func(key string) {
			if _, err := m.etcd.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		return entrytest.World{
			Router:       m.client(t, func(cfg *gateway.Config) { cfg.Addresses = func() []string { return []string{l.Addr()} } }),
			PutRoute:     func(r mesh.Route) { m.put(t, gateway.RouteKey(r.Name), r) },
			DeleteRoute:  func(n mesh.ServerName) { remove(gateway.RouteKey(n)) },
			PutTarget:    func(x mesh.Target) { m.put(t, gateway.TargetKey(x.ID), x) },
			DeleteTarget: func(id string) { remove(gateway.TargetKey(id)) },
			Silence:      l.Cut,
		}
	})
}

func lookup(t testing.TB, c *gateway.Client, n mesh.ServerName) (mesh.Route, []mesh.Target) {
	t.Helper()
	r, targets, err := c.Lookup(t.Context(), n)
	if err != nil {
		t.Fatalf("Lookup(%s): %v", n, err)
	}
	return r, targets
}

func TestLookupGivesTheRouteAndItsTargetsInOrder(t *testing.T) {
	m := startMgmt(t)
	a, missing, b := mesh.NewCoreID(), mesh.NewCoreID(), mesh.NewCoreID()
	want := m.putRoute(t, name, a, missing, b)
	m.putTarget(t, b, mesh.CoreReady)
	m.putTarget(t, a, mesh.CoreLost)
	c := m.client(t)
	for range 3 {
		r, targets := lookup(t, c, name)
		if r.Name != want.Name || r.Device != want.Device || len(r.Hops) != 3 {
			t.Fatalf("route %+v, want %+v", r, want)
		}
		if len(targets) != 2 || targets[0].ID != string(a) || targets[1].ID != string(b) || targets[0].State != mesh.CoreLost {
			t.Fatalf("targets %+v, want those of %s and %s", targets, a, b)
		}
	}
	if _, _, err := c.Lookup(t.Context(), "other.a.example.net"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("a name without a route: %v, want ErrNotFound", err)
	}
}

func TestATargetThatWasAskedForIsFollowed(t *testing.T) {
	m := startMgmt(t)
	core := mesh.NewCoreID()
	m.putRoute(t, name, core)
	m.putTarget(t, core, mesh.CoreReady)
	var mu sync.Mutex
	var reported []mesh.CoreState
	c := m.client(t, func(cfg *gateway.Config) {
		cfg.OnTarget = func(tg mesh.Target, deleted bool) {
			if tg.ID != string(core) {
				t.Errorf("report of %q", tg.ID)
			}
			if deleted {
				tg.State = "deleted"
			}
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, tg.State)
		}
	})
	lookup(t, c, name)
	last := func(want mesh.CoreState) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(reported) > 0 && reported[len(reported)-1] == want
		}
	}
	m.putTarget(t, core, mesh.CoreDraining)
	eventually(t, "a report of draining", last(mesh.CoreDraining))
	if _, targets := lookup(t, c, name); targets[0].State != mesh.CoreDraining {
		t.Errorf("after the report the lookup says %s", targets[0].State)
	}
	if _, err := m.etcd.Delete(t.Context(), gateway.TargetKey(string(core))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a report of the deletion", last("deleted"))
	if _, targets := lookup(t, c, name); len(targets) != 0 {
		t.Errorf("after the deletion the lookup has %+v", targets)
	}
}

// D-01, failure table "all management servers down": names this entry has seen
// go on, others are refused, and what changed meanwhile is seen soon after.
func TestTheLastAnswerServesWhileNobodyAnswers(t *testing.T) {
	m := startMgmt(t)
	core := mesh.NewCoreID()
	m.putRoute(t, name, core)
	m.putTarget(t, core, mesh.CoreReady)
	reg := prometheus.NewRegistry()
	var allowed atomic.Int64
	allowed.Store(int64(time.Hour))
	c := m.client(t, func(cfg *gateway.Config) {
		cfg.Metrics = reg
		cfg.StaleFor = func() time.Duration { return time.Duration(allowed.Load()) }
	})
	want, _ := lookup(t, c, name)
	m.stop()
	for range 5 {
		r, targets := lookup(t, c, name)
		if r.Device != want.Device || len(targets) != 1 || targets[0].ID != string(core) {
			t.Fatalf("last answer: %+v %+v", r, targets)
		}
	}
	if _, _, err := c.Lookup(t.Context(), "other.a.example.net"); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("a name never asked for: %v, want ErrUnavailable", err)
	}
	if n := lookupsOf(t, reg, "stale"); n != 5 {
		t.Errorf("%v answers counted as stale, want 5", n)
	}
	allowed.Store(0)
	if _, _, err := c.Lookup(t.Context(), name); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("a last answer that is too old: %v, want ErrUnavailable", err)
	}
	allowed.Store(int64(time.Hour))

	moved := m.putRoute(t, name, core, mesh.NewCoreID())
	m.putRoute(t, "other.a.example.net", core)
	m.start(t, m.addr)
	eventually(t, "the change after the server's return", func() bool {
		r, _, err := c.Lookup(t.Context(), name)
		return err == nil && r.Device == moved.Device
	})
	lookup(t, c, "other.a.example.net")
	if _, err := m.etcd.Delete(t.Context(), gateway.RouteKey(name)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Lookup(t.Context(), name); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("a deleted route: %v, want ErrNotFound", err)
	}
}

func lookupsOf(t *testing.T, reg *prometheus.Registry, result string) float64 {
	t.Helper()
	return value(t, reg, "meshctl_gateway_lookups_total", result)
}

// value is that of the series with these labels, in the order of their names;
// 0 if there is none.
func value(t testing.TB, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			var have []string
			for _, l := range m.Label {
				have = append(have, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// A server that hangs costs one lookup its tries; then the breaker knows.
func TestAFrozenServerCostsOnlyTheFirstLookups(t *testing.T) {
	m := startMgmt(t)
	core := mesh.NewCoreID()
	m.putRoute(t, name, core)
	l := storetest.NewLink(t, m.addr)
	c := m.client(t, func(cfg *gateway.Config) {
		cfg.Addresses = func() []string { return []string{l.Addr()} }
	})
	eventually(t, "an answer through the link", func() bool { _, _, err := c.Lookup(t.Context(), name); return err == nil })
	l.Freeze()
	for range 2 {
		lookup(t, c, name)
	}
	start := time.Now()
	for range 100 {
		lookup(t, c, name)
	}
	if took := time.Since(start); took > perTry/2 {
		t.Errorf("100 lookups took %v although nobody answers", took)
	}
	l.Heal()
	other := m.putRoute(t, "other.a.example.net", core)
	eventually(t, "a fresh answer after the thaw", func() bool {
		r, _, err := c.Lookup(t.Context(), other.Name)
		return err == nil && r.Device == other.Device
	})
}

func TestEqualNamesAreOneQuestion(t *testing.T) {
	m := startMgmt(t)
	m.putRoute(t, name, mesh.NewCoreID())
	l := storetest.NewLink(t, m.addr)
	reg := prometheus.NewRegistry()
	c := m.client(t, func(cfg *gateway.Config) {
		cfg.Addresses = func() []string { return []string{l.Addr()} }
		cfg.Metrics = reg
		cfg.PerTry = 10 * time.Second
	})
	lookup(t, c, name)
	before := lookupsOf(t, reg, "found")
	l.Freeze()
	var wg sync.WaitGroup
	var under atomic.Int64
	for range 50 {
		wg.Go(func() {
			under.Add(1)
			if _, _, err := c.Lookup(t.Context(), name); err != nil {
				t.Errorf("Lookup: %v", err)
			}
		})
	}
	eventually(t, "50 lookups under way", func() bool { return under.Load() == 50 })
	l.Heal()
	wg.Wait()
	// Those that came to run only after the thaw ask anew.
	if asked := lookupsOf(t, reg, "found") - before; asked > 25 {
		t.Errorf("50 equal lookups asked %v times", asked)
	}
}

// D-01: an empty store never replaces what is known unless a quorum confirms it
// or the store is newer.
func TestAMissThatNobodyConfirms(t *testing.T) {
	// A spent budget refuses the second question as a lost quorum does.
	spent := func(s *gateway.Server) { s.MissRate, s.MissBurst = 1e-9, 1 }
	m := startMgmt(t, spent)
	empty := startMgmtOf(t, m.ca, spent)
	var addr atomic.Pointer[[]string]
	addr.Store(&[]string{m.addr})
	c := m.client(t, func(cfg *gateway.Config) { cfg.Addresses = func() []string { return *addr.Load() } })
	m.putRoute(t, "first.a.example.net", mesh.NewCoreID()) // raises the revision above the other's
	m.putRoute(t, name, mesh.NewCoreID())
	lookup(t, c, name)
	if _, _, err := c.Lookup(t.Context(), "never.a.example.net"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("a confirmed miss: %v, want ErrNotFound", err)
	}
	if _, _, err := c.Lookup(t.Context(), "never.a.example.net"); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("an unconfirmed miss: %v, want ErrUnavailable", err)
	}
	addr.Store(&[]string{empty.addr})
	if _, _, err := c.Lookup(t.Context(), "never.a.example.net"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("a miss that the other server confirms: %v, want ErrNotFound", err)
	}
	lookup(t, c, name)
	addr.Store(&[]string{m.addr})
	if _, err := m.etcd.Delete(t.Context(), gateway.RouteKey(name)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Lookup(t.Context(), name); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("gone from a store that is newer than the last answer: %v, want ErrNotFound", err)
	}
}

func TestAServerOfAnotherMeshIsNoServer(t *testing.T) {
	m, foreign := startMgmt(t), startMgmt(t)
	foreign.putRoute(t, name, mesh.NewCoreID())
	c := m.client(t, func(cfg *gateway.Config) {
		cfg.Addresses = func() []string { return []string{foreign.addr} }
	})
	if _, _, err := c.Lookup(t.Context(), name); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("Lookup: %v, want ErrUnavailable", err)
	}
}

func TestAddressesMayChange(t *testing.T) {
	m := startMgmt(t)
	m.putRoute(t, name, mesh.NewCoreID())
	var addrs atomic.Pointer[[]string]
	addrs.Store(new([]string))
	c := m.client(t, func(cfg *gateway.Config) { cfg.Addresses = func() []string { return *addrs.Load() } })
	if _, _, err := c.Lookup(t.Context(), name); !errors.Is(err, mesh.ErrUnavailable) {
		t.Fatalf("without any address: %v", err)
	}
	addrs.Store(&[]string{"127.0.0.1:1", m.addr})
	lookup(t, c, name) // the second try is another server
	addrs.Store(&[]string{m.addr})
	lookup(t, c, name)
}

func BenchmarkLookup(b *testing.B) {
	m := startMgmt(b)
	core := mesh.NewCoreID()
	m.putRoute(b, name, core)
	m.putTarget(b, core, mesh.CoreReady)
	c := m.client(b)
	lookup(b, c, name)
	for b.Loop() {
		if _, _, err := c.Lookup(context.Background(), name); err != nil {
			b.Fatal(err)
		}
	}
}
