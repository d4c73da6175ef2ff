package entry_test

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

const service = mesh.ServerName("sub.example.net")

// startServer is a management server as far as an entry can see.
func startServer(t testing.TB, ca *identitytest.Mesh, serve func(*relay.Incoming)) *core {
	t.Helper()
	id := ca.Identity(mesh.RoleMgmt)
	c := startCoreAs(t, ca, id, serve)
	c.target.ID, c.target.Kind, c.target.Identity = id.ID, mesh.HopMgmt, id.String()
	return c
}

// serviceGate is an entry whose settings name the subscription service.
func serviceGate(t testing.TB) *gate {
	g := startEntry(t)
	g.Settings.Apply([]mesh.ServerName{suffix, service}, time.Hour, false)
	return g
}

func TestTheServicesNameLeadsToAManagementServer(t *testing.T) {
	g := serviceGate(t)
	one, two := startServer(t, g.ca, nil), startServer(t, g.ca, nil)
	g.route.put(mesh.Route{Name: service, ForwardClientAddress: true}, one.target, two.target)

	g.open(t, service).Close()
	if seen := one.seen(); len(seen) != 1 || seen[0].ServerName != string(service) || seen[0].Device != "" || !seen[0].Client.IsValid() {
		t.Errorf("the server was told %+v", seen)
	}
	one.kill()
	g.open(t, service).Close()
	if len(two.seen()) != 1 {
		t.Error("a server that was killed kept the client from the other")
	}
	if r := g.Report(); len(r.GetDials()) != 0 {
		t.Errorf("servers are reported as cores: %v", r.GetDials())
	}
}

func TestAServerThatRefusesIsReplacedByTheNext(t *testing.T) {
	g := serviceGate(t)
	one, two := startServer(t, g.ca, refuse(relay.CodeInternal, true)), startServer(t, g.ca, nil)
	g.route.put(mesh.Route{Name: service}, one.target, two.target)
	g.open(t, service).Close()
	if len(one.seen()) != 1 || len(two.seen()) != 1 {
		t.Errorf("%d and %d servers were asked", len(one.seen()), len(two.seen()))
	}
}

func TestACoreIsNoManagementServer(t *testing.T) {
	g := serviceGate(t)
	posing := startCore(t, g.ca, nil)
	target := posing.target
	target.Kind = mesh.HopMgmt // its identity is still that of a core
	g.route.put(mesh.Route{Name: service}, target)
	c := dial(t, g.addr)
	send(t, c, hello(service))
	wantClosed(t, c)
	if len(posing.seen()) != 0 {
		t.Error("a core was asked for the subscription service")
	}
}

func TestOnlyTheServicesOwnNameIsAskedFor(t *testing.T) {
	g := serviceGate(t)
	for _, n := range []mesh.ServerName{"example.net", "other.example.net"} {
		c := dial(t, g.addr)
		send(t, c, hello(n))
		wantClosed(t, c)
	}
	if g.route.count() != 0 {
		t.Errorf("%d names were asked for", g.route.count())
	}
}
