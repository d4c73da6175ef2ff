package nodes

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/core"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// runCore runs a real core with a real phone-home.
func (n *network) runCore(f *fake) *control.PhoneHome {
	n.t.Helper()
	return n.runCoreAt(f, 0, n.addr)
}

// runCoreAt is runCore with addresses of management, and the time between pings.
func (n *network) runCoreAt(f *fake, ping time.Duration, addrs ...string) *control.PhoneHome {
	n.t.Helper()
	log := slog.New(slog.NewTextHandler(n.t.Output(), nil)).With("side", "core")
	cfg := core.DefaultConfig()
	cfg.Egress = core.Egress{Kind: core.EgressForward, Forward: "127.0.0.1:1"}
	revs := n.ids.Revocations(n.t)
	srv, err := core.New(core.Options{Node: f.node, Revocations: revs, Config: cfg, Log: log})
	if err != nil {
		n.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	state, err := control.OpenState(n.t.TempDir(), log)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := state.SetAddresses(addrs); err != nil {
		n.t.Fatal(err)
	}
	home := &control.PhoneHome{Node: f.node, State: state, Revocations: revs, Role: srv, Version: "real", Log: log, Changed: srv.Changed(), PingEvery: ping}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	f.hello.RelayPort = uint32(ln.Addr().(*net.TCPAddr).Port)
	wg.Go(func() { srv.Serve(ctx, ln) })
	eventually(n.t, "the core listens", func() bool {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	wg.Go(func() { home.Run(ctx) })
	n.t.Cleanup(func() { cancel(); wg.Wait() })
	return home
}

// The node's side of the protocol is the one that is shipped.
func TestRealCore(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f := n.addCore("c")
	home := n.runCore(f)
	n.wantState(f, mesh.CoreReady)
	d := n.addDevice("phone")
	n.waitServed(d)
	if via := n.via(d); len(via) != 1 {
		t.Errorf("via %v", via)
	}
	eventually(t, "all is acknowledged", func() bool {
		st := n.status(f)
		return st.ConfigRev > 0 && st.RevokedRev > 0 && st.DevicesRev > 0 && st.Failure == "" && st.Version == "real"
	})

	e := n.addEntry("e")
	n.revoke(e)
	eventually(t, "the core knows whom to refuse", func() bool {
		return home.Revocations.Check(identity.Peer{Identity: e.id}) != nil
	})
	n.revoke(f)
	eventually(t, "the core's own stream is cut", func() bool { return len(n.svc.Connected()) == 0 })
}
