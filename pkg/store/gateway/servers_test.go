package gateway_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/gateway"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// trio is three servers on one store, each behind a link, and a client of all.
// The first server is nearest.
type trio struct {
	servers [3]*mgmt
	links   [3]*storetest.Link
	client  *gateway.Client
	reg     *prometheus.Registry
}

func startTrio(t testing.TB, change ...func(*gateway.Config)) *trio {
	t.Helper()
	tr := &trio{reg: prometheus.NewRegistry()}
	ca, etcd := identitytest.New(t), startEtcd(t)
	var addrs []string
	for i := range tr.servers {
		tr.servers[i] = startMgmtOn(t, ca, etcd, func(s *gateway.Server) {
			led := s.HasLeader
			s.HasLeader = func() bool {
				if i > 0 {
					<-time.After(10 * time.Millisecond)
				}
				return led()
			}
		})
		tr.links[i] = storetest.NewLink(t, tr.servers[i].addr)
		addrs = append(addrs, tr.links[i].Addr())
	}
	tr.client = tr.servers[0].client(t, slices.Concat([]func(*gateway.Config){func(cfg *gateway.Config) {
		cfg.Addresses = func() []string { return addrs }
		cfg.Metrics = tr.reg
	}}, change)...)
	eventually(t, "an answer of each server", func() bool {
		return !slices.ContainsFunc(addrs, func(a string) bool { return tr.answers(t, a, "answered") == 0 })
	})
	return tr
}

func (tr *trio) answers(t testing.TB, addr, result string) float64 {
	return value(t, tr.reg, "meshctl_gateway_answers_total", result, addr)
}

// settle waits until lookups go to the nearest server.
func (tr *trio) settle(t testing.TB) {
	t.Helper()
	near := tr.links[0].Addr()
	eventually(t, "lookups go to the nearest server", func() bool {
		before := tr.answers(t, near, "answered")
		for range 10 {
			lookup(t, tr.client, name)
		}
		return tr.answers(t, near, "answered")-before >= 10
	})
}

func (tr *trio) up(t testing.TB, i int) bool {
	return value(t, tr.reg, "meshctl_gateway_server_up", tr.links[i].Addr()) == 1
}

// D-05: a frozen server is overtaken by another, is soon asked no more, and is
// asked again when it thaws. No lookup fails or needs a last answer.
func TestAFrozenServerIsOvertakenAndDropped(t *testing.T) {
	t.Parallel()
	tr := startTrio(t)
	tr.servers[0].putRoute(t, name, mesh.NewCoreID())
	tr.settle(t)
	const i = 0
	tr.links[i].Freeze()
	start := time.Now()
	var slowest time.Duration
	slow := 0
	for n := 0; n < 100 || tr.up(t, i); n++ {
		at := time.Now()
		lookup(t, tr.client, name)
		took := time.Since(at)
		slowest = max(slowest, took)
		if took > 18*time.Millisecond {
			slow++
		}
		if time.Since(start) > 15*time.Second {
			t.Fatal("not dropped within 15 s")
		}
	}
	t.Logf("dropped %v after it froze; slowest lookup %v, %d over 18 ms", time.Since(start), slowest, slow)
	if slowest > perTry {
		t.Errorf("a lookup took %v, want about the usual time and not that of a try", slowest)
	}
	if n := lookupsOf(t, tr.reg, "stale"); n > 0 {
		t.Errorf("%v last answers although two servers answered", n)
	}
	hedged := 0.0
	for _, l := range tr.links {
		hedged += value(t, tr.reg, "meshctl_gateway_hedges_total", l.Addr())
	}
	if hedged == 0 || tr.answers(t, tr.links[i].Addr(), "overtaken") == 0 {
		t.Errorf("%v hedges counted", hedged)
	}
	tr.links[i].Heal()
	eventually(t, "the thawed server is asked again", func() bool { return tr.up(t, i) })
}

func TestAKilledServerIsNotNoticed(t *testing.T) {
	t.Parallel()
	tr := startTrio(t)
	tr.servers[0].putRoute(t, name, mesh.NewCoreID())
	tr.settle(t)
	const i = 0
	kill := time.AfterFunc(50*time.Millisecond, tr.servers[i].stop)
	defer kill.Stop()
	var slowest time.Duration
	for n := 0; n < 100 || tr.up(t, i); n++ {
		at := time.Now()
		lookup(t, tr.client, name)
		slowest = max(slowest, time.Since(at))
	}
	t.Logf("slowest lookup %v", slowest)
	if n := lookupsOf(t, tr.reg, "stale") + lookupsOf(t, tr.reg, "unavailable"); n > 0 {
		t.Errorf("%v lookups had no fresh answer", n)
	}
	tr.servers[i].start(t, tr.servers[i].addr)
	eventually(t, "the server that came back is asked again", func() bool { return tr.up(t, i) })
}

// What a server without a leader says may be old; it is used if nobody knows better.
func TestAnAnswerWithoutALeaderIsTheLastResort(t *testing.T) {
	led := startMgmt(t)
	cut := startMgmtOf(t, led.ca)
	cut.noLeader.Store(true)
	old, current := cut.putRoute(t, name, mesh.NewCoreID()), led.putRoute(t, name, mesh.NewCoreID())
	for _, addrs := range [][]string{{cut.addr, led.addr}, {led.addr, cut.addr}} {
		c := led.client(t, func(cfg *gateway.Config) { cfg.Addresses = func() []string { return addrs } })
		for range 20 {
			if r, _ := lookup(t, c, name); r.Device != current.Device {
				t.Fatal("the answer without a leader was used although there was another")
			}
		}
	}
	l := storetest.NewLink(t, led.addr)
	c := led.client(t, func(cfg *gateway.Config) {
		cfg.Addresses = func() []string { return []string{l.Addr(), cut.addr} }
	})
	lookup(t, c, name)
	l.Freeze()
	if r, _ := lookup(t, c, name); r.Device != old.Device {
		t.Error("the answer without a leader was not used although there was no other")
	}
	l.Heal()
	led.noLeader.Store(true)
	lookup(t, c, name)
}

// A route may come from one server and its targets from another that has yet to
// learn of them.
func TestTargetsAreAsNewAsTheRoute(t *testing.T) {
	t.Parallel()
	m := startMgmt(t)
	core := mesh.NewCoreID()
	m.putTarget(t, core, mesh.CoreReady)
	m.putRoute(t, name, core)
	m.behind.Store(true)
	if _, targets := lookup(t, m.client(t), name); len(targets) != 1 || targets[0].ID != string(core) {
		t.Errorf("targets %+v, want that of %s", targets, core)
	}
}

// With every server down the breaker knows before a client comes: the first
// connection to a known name costs no try time.
func TestTheFirstLookupAfterAllServersDiedCostsNothing(t *testing.T) {
	t.Parallel()
	for what, fail := range map[string]func(*storetest.Link){"frozen": (*storetest.Link).Freeze, "dead": (*storetest.Link).Cut} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			tr := startTrio(t)
			want := tr.servers[0].putRoute(t, name, mesh.NewCoreID())
			lookup(t, tr.client, name)
			start := time.Now()
			for _, l := range tr.links {
				fail(l)
			}
			eventually(t, "known that no server answers", func() bool {
				return value(t, tr.reg, "meshctl_gateway_servers_gone") == 1
			})
			known := time.Since(start)
			at := time.Now()
			r, _ := lookup(t, tr.client, name)
			took := time.Since(at)
			t.Logf("known after %v; the first lookup then took %v", known, took)
			if r.Device != want.Device || took > perTry/2 {
				t.Errorf("the first lookup gave %v after %v", r.Device, took)
			}
			moved := tr.servers[0].putRoute(t, name, mesh.NewCoreID())
			tr.links[1].Heal()
			eventually(t, "a fresh answer of the first server that is back", func() bool {
				r, _ := lookup(t, tr.client, name)
				return r.Device == moved.Device
			})
		})
	}
}

func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	a := startMgmt(t)
	b, c := startMgmtOn(t, a.ca, a.etcd), startMgmtOn(t, a.ca, a.etcd)
	core := mesh.NewCoreID()
	a.putRoute(t, name, core)
	a.putTarget(t, core, mesh.CoreReady)
	var addrs atomic.Pointer[[]string]
	addrs.Store(&[]string{a.addr})
	reg := prometheus.NewRegistry()
	cl := a.client(t, func(cfg *gateway.Config) {
		cfg.Addresses, cfg.Metrics = func() []string { return *addrs.Load() }, reg
	})
	lookup(t, cl, name)
	eventually(t, "a watch at the first server", func() bool { return a.watches.Load() == 1 })
	addrs.Store(&[]string{b.addr, c.addr})
	// Nothing is looked up: what goes must go by itself.
	eventually(t, "the watch at a new server", func() bool { return a.watches.Load() == 0 && b.watches.Load()+c.watches.Load() == 1 })
	a.stop()
	for range 20 {
		lookup(t, cl, name)
	}
	if n := value(t, reg, "meshctl_gateway_answers_total", "answered", a.addr); n != 0 {
		t.Errorf("the server that went still has a series: %v", n)
	}
	if n := lookupsOf(t, reg, "stale") + lookupsOf(t, reg, "unavailable"); n > 0 {
		t.Errorf("%v lookups had no fresh answer", n)
	}
}

// A server that was revoked is left at once, although its connection was good.
func TestARevokedServerIsLeft(t *testing.T) {
	t.Parallel()
	a := startMgmt(t)
	b := startMgmtOn(t, a.ca, a.etcd)
	core := mesh.NewCoreID()
	a.putRoute(t, name, core)
	revs := a.ca.Revocations(t)
	reg := prometheus.NewRegistry()
	c := a.client(t, func(cfg *gateway.Config) {
		cfg.Addresses, cfg.Revocations = func() []string { return []string{a.addr, b.addr} }, revs
		cfg.Metrics = reg
	})
	lookup(t, c, name)
	eventually(t, "a watch", func() bool { return a.watches.Load()+b.watches.Load() > 0 })
	bad, whole := a, b
	if b.watches.Load() > 0 {
		bad, whole = b, a
	}
	revoked := a.ca.Revoke(t, mesh.Revocation{Node: bad.node.Identity().Node()})
	if err := revs.Apply(true, 0, 1, []mesh.SignedRevocation{revoked}); err != nil {
		t.Fatal(err)
	}
	answered := func() float64 { return value(t, reg, "meshctl_gateway_answers_total", "answered", bad.addr) }
	before := answered()
	for range 20 {
		lookup(t, c, name)
	}
	eventually(t, "the watch at the other server", func() bool { return bad.watches.Load() == 0 && whole.watches.Load() == 1 })
	if n := answered() - before; n > 0 {
		t.Errorf("the revoked server answered %v questions", n)
	}
}

// D-07: the watch goes to another server when its own looks alive and delivers
// nothing, and nothing that changed meanwhile is missed.
func TestTheWatchLeavesAServerThatFails(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*trio, int){
		"frozen":           func(tr *trio, i int) { tr.links[i].Freeze() },
		"dead":             func(tr *trio, i int) { tr.servers[i].stop() },
		"cut off":          func(tr *trio, i int) { tr.links[i].Cut() },
		"without a leader": func(tr *trio, i int) { tr.servers[i].noLeader.Store(true) },
	}
	for what, fail := range tests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var last mesh.CoreState
			tr := startTrio(t, func(cfg *gateway.Config) {
				cfg.OnTarget = func(tg mesh.Target, _ bool) {
					mu.Lock()
					defer mu.Unlock()
					last = tg.State
				}
			})
			core := mesh.NewCoreID()
			tr.servers[0].putRoute(t, name, core)
			tr.servers[0].putTarget(t, core, mesh.CoreReady)
			lookup(t, tr.client, name)
			serving := func() int {
				return slices.IndexFunc(tr.servers[:], func(m *mgmt) bool { return m.watches.Load() > 0 })
			}
			eventually(t, "a watch", func() bool { return serving() >= 0 })
			i := serving()
			start := time.Now()
			fail(tr, i)
			tr.servers[0].putTarget(t, core, mesh.CoreDraining)
			eventually(t, "a watch elsewhere", func() bool {
				return slices.ContainsFunc(tr.servers[:], func(m *mgmt) bool { return m != tr.servers[i] && m.watches.Load() > 0 })
			})
			eventually(t, "a report of the change", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return last == mesh.CoreDraining
			})
			took := time.Since(start)
			t.Logf("moved and reported after %v", took)
			if took > 50*time.Second {
				t.Errorf("moved after %v, within 10 s is promised", took)
			}
		})
	}
}

// Three members of a real cluster: the one with the leader dies, then another.
// The last one goes on answering although it has no leader; watches and what
// needs a quorum wait.
func TestLookupsGoOnWithoutAQuorum(t *testing.T) {
	t.Parallel()
	ca := identitytest.New(t)
	var servers [3]*mgmt
	var addrs []string
	members := storetest.Cluster(t)
	for i, x := range members {
		etcd := etcdAt(t, x.Addr)
		servers[i] = startMgmtOn(t, ca, etcd, func(s *gateway.Server) { s.HasLeader = x.HasLeader })
		addrs = append(addrs, servers[i].addr)
	}
	core := mesh.NewCoreID()
	want := servers[0].putRoute(t, name, core)
	servers[0].putTarget(t, core, mesh.CoreReady)
	reg := prometheus.NewRegistry()
	c := servers[0].client(t, func(cfg *gateway.Config) {
		cfg.Addresses, cfg.Metrics = func() []string { return addrs }, reg
	})
	lookup(t, c, name)
	fresh := func(what string) {
		t.Helper()
		var slowest time.Duration
		for range 100 {
			at := time.Now()
			if r, targets := lookup(t, c, name); r.Device != want.Device || len(targets) != 1 {
				t.Fatalf("%s: %+v, %+v", what, r, targets)
			}
			slowest = max(slowest, time.Since(at))
		}
		t.Logf("%s: slowest of 100 lookups %v", what, slowest)
		if n := lookupsOf(t, reg, "stale"); n > 0 {
			t.Errorf("%s: %v last answers, want fresh ones", what, n)
		}
	}
	fresh("three servers")
	servers[0].stop()
	members[0].Stop()
	fresh("two servers")
	servers[1].stop()
	members[1].Stop()
	eventually(t, "the last one has no leader", func() bool { return !members[2].HasLeader() })
	fresh("one server without a leader")
	if n := value(t, reg, "meshctl_gateway_answers_without_leader_total"); n == 0 {
		t.Error("no answer came without a leader")
	}
	if _, _, err := c.Lookup(t.Context(), "other.a.example.net"); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("a name that it does not have: %v, want ErrUnavailable", err)
	}
}
