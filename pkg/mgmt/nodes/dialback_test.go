package nodes

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// A core that cannot be dialled stays joined, with a reason that helps.
func TestDialBackFails(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	tests := map[string]struct {
		prepare func(*fake)
		reason  string
	}{
		"its port is closed":            {func(f *fake) { f.hello.RelayPort = uint32(closed.Port()) }, "dial back to 127.0.0.1:1: connect: connection refused"},
		"another core answers (C-05)":   {func(f *fake) { f.relay(n.ids.Node(t, mesh.RoleCore)) }, "expected spiffe://"},
		"a management server answers":   {func(f *fake) { f.relay(n.ids.Node(t, mesh.RoleMgmt)) }, "expected spiffe://"},
		"it answers with another nonce": {func(f *fake) { f.wrong = true; f.relay(f.node) }, "receive answer: it is not the one expected"},
		"its address is refused":        {func(f *fake) { f.relay(f.node); f.hello.Advertise = []string{"10.1.2.3"} }, "address 10.1.2.3 is private"},
		"link-local is always refused":  {func(f *fake) { f.relay(f.node); f.hello.Advertise = []string{"169.254.169.254:80"} }, "address 169.254.169.254 is link-local"},
		"it has no port":                {func(*fake) {}, "relay port 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := n.addCore(name)
			tt.prepare(f)
			f.live(f.greet(), nil)
			eventually(t, "a reason", func() bool { return n.core(f).Reason != "" })
			c := n.core(f)
			if c.State != mesh.CoreJoined || !strings.Contains(c.Reason, tt.reason) || strings.Contains(c.Reason, "\n") || c.EverReady || len(c.Addresses) > 0 {
				t.Errorf("core %+v, want joined because of %q", c, tt.reason)
			}
			n.wantEvent(mesh.EventCoreUnreachable, f.id.Node())
		})
	}
}

func TestProbeIsNotConfirmed(t *testing.T) {
	t.Parallel()
	times := quick()
	times.ProbeTime = 200 * time.Millisecond
	n := newNetwork(t, times, loopback...)
	f := n.addCore("c")
	f.relay(f.node)
	f.greet() // reads what it is sent and answers nothing
	eventually(t, "a reason", func() bool {
		return strings.Contains(n.core(f).Reason, "did not confirm the probe over its stream within 200ms")
	})
}

// Without a range that allows it, loopback is refused as any other address
// that is not public (E-08).
func TestLoopbackIsRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addCore("c")
	f.relay(f.node)
	f.live(f.greet(), nil)
	eventually(t, "a reason", func() bool { return n.core(f).Reason != "" })
	if c := n.core(f); c.State != mesh.CoreJoined || !strings.Contains(c.Reason, "address 127.0.0.1 is loopback") {
		t.Errorf("core %+v", c)
	}
	n.wantEvent(mesh.EventAddressRefused, f.id.Node())

	// Allowing it is enough: the core need not come again.
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error { c.AllowedAddresses = loopback; return nil })
	})
	n.wantState(f, mesh.CoreReady)
}

func TestPortOfManagementIsRefused(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error {
			c.MgmtAddresses = []string{"localhost:1", n.addr}
			return nil
		})
	})
	eventually(t, "addresses are resolved", func() bool { return len(n.svc.policy().own) >= 2 })
	f := n.addCore("c")
	f.relay(f.node)
	f.hello.Advertise = []string{n.addr}
	f.live(f.greet(), nil)
	eventually(t, "a reason", func() bool { return strings.Contains(n.core(f).Reason, "is a port of the mesh itself") })
}

// What was proven stays until something else is proven.
func TestAddressChange(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.addCore("c")
	f.relay(f.node)
	l := f.greet()
	f.live(l, nil)
	before := n.wantState(f, mesh.CoreReady).Addresses

	l.hangUp()
	f.hello.Boot, f.hello.Advertise = 2, []string{"127.0.0.1:1"}
	l = f.greet()
	f.live(l, nil)
	c := n.wantState(f, mesh.CoreJoined)
	if !strings.Contains(c.Reason, "connection refused") || c.Addresses[0] != before[0] {
		t.Errorf("core %+v, want its old address %v", c, before)
	}

	l.hangUp()
	f.hello.Boot, f.hello.Advertise = 3, nil
	f.relay(f.node)
	f.live(f.greet(), nil)
	c = n.wantState(f, mesh.CoreReady)
	if len(c.Addresses) != 1 || c.Addresses[0] == before[0] || c.Addresses[0].Port() != uint16(f.hello.GetRelayPort()) {
		t.Errorf("core %+v, want its new address", c)
	}
	target, err := n.store.Targets.Get(t.Context(), f.id.ID)
	if err != nil || target.Value.Addresses[0] != c.Addresses[0] {
		t.Errorf("target %+v, %v", target.Value, err)
	}
}

// An entry that cannot reach a core has it dialled again, and a core that
// stopped answering is found out before the next probe is due.
func TestEntryReportsDials(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.readyCore("c")
	e := n.addEntry("e")
	l := e.greet()
	e.live(l, nil)
	f.mu.Lock()
	f.wrong = true
	f.mu.Unlock()
	report := &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{
		Dials: []*controlpb.DialResult{{Core: f.id.ID, Failed: 3}, {Core: "core-unknown", Failed: 1}}}}}
	l.post(report)
	if c := n.wantState(f, mesh.CoreJoined); !strings.Contains(c.Reason, "not the one expected") {
		t.Errorf("core %+v", c)
	}
}
