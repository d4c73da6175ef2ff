//go:build faults

package faults

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// coreOf is the core that a client's route names first.
func (l *Lab) coreOf(t *testing.T, c *Client) *Host {
	t.Helper()
	d := must(t, l, admin.DeviceGet, admin.Ref{Ref: string(c.Device.ID)})
	if len(d.Via) == 0 {
		t.Fatalf("device %s waits: %s", d.Name, d.Waiting)
	}
	return l.Host(must(t, l, admin.CoreGet, admin.Ref{Ref: d.Via[0]}).Name)
}

// clientsOf are clients whose routes name the core first; more are made until
// there are n.
func (l *Lab) clientsOf(t *testing.T, core *Host, n int) []*Client {
	t.Helper()
	var out []*Client
	for i := 0; len(out) < n; i++ {
		if i == len(l.clients) {
			l.clients = append(l.clients, l.NewClient(t, memberName))
		}
		if l.coreOf(t, l.clients[i]) == core {
			out = append(out, l.clients[i])
		}
	}
	return out
}

// Every client of these tests has the same core first, so that all of them are
// hit. What is being opened in that very moment is the core's, too.
const underWay = 3

func TestCoreKilled(t *testing.T) {
	l := theLab(t)
	core := l.Cores[0]
	tr := l.Start(t, Traffic{Clients: l.clientsOf(t, core, 4)})
	tr.Go(time.Second)
	tr.Fault()
	core.Kill(t)
	begin := time.Now()
	if _, err := l.serve(t.Context(), tr.Clients); err != nil {
		t.Errorf("reconnecting at once: %v", err)
	}
	again := time.Since(begin)
	noticed := l.coreConnected(t, core, false)
	t.Logf("all clients reconnected within %v; management noticed after %v", again, noticed)
	tr.Go(3 * time.Second)
	core.Start(t)
	tr.Go(3 * time.Second)
	m := tr.Stop(t)
	if m.LostOpen != m.Held || m.FailedNew > underWay {
		t.Errorf("want all %d open connections lost, and new ones served; %v", m.Held, m)
	}
	within(t, "the last failure", m.Trouble, time.Second)
	l.Record(t, "core killed (all these clients' first)", m, m.Trouble, "")
}

// coreConnected waits until management says of a core whether it is connected.
func (l *Lab) coreConnected(t *testing.T, core *Host, want bool) time.Duration {
	t.Helper()
	return l.WaitFor(t, patience, fmt.Sprintf("%s is connected: %v", core.Name, want), func() error {
		c, err := call(t.Context(), l, admin.CoreGet, admin.Ref{Ref: core.Name})
		if err != nil {
			return err
		}
		if got := c.Status != nil && c.Status.Connected; got != want {
			return fmt.Errorf("it says %v", got)
		}
		return nil
	})
}

func TestCoreFrozen(t *testing.T) {
	l := theLab(t)
	core := l.Cores[1]
	tr := l.Start(t, Traffic{Clients: l.clientsOf(t, core, 4)})
	tr.Go(time.Second)
	tr.Fault()
	core.Freeze(t)
	tr.Go(20 * time.Second)
	core.Thaw(t)
	tr.Go(5 * time.Second)
	m := tr.Stop(t)
	if m.FailedNew > 0 {
		t.Errorf("want every new connection served by another core; %v", m)
	}
	within(t, "the slowest new connection", m.SlowestNew, 2*time.Second)
	l.Record(t, "core frozen 20 s (all these clients' first)", m, m.SlowestNew, "until a new client was served by another core")
}

func TestCoreAddressChanges(t *testing.T) {
	l := theLab(t)
	core := l.Cores[2]
	was := core.Addr
	tr := l.Start(t, Traffic{Clients: l.clientsOf(t, core, 4)})
	tr.Go(time.Second)
	tr.Fault()
	l.Readdress(t, core, subnetAddr(39))
	moved := l.readyAtAddress(t, core)
	t.Logf("ready at its new address after %v", moved)
	<-time.After(30*time.Second - moved) // until the entries hold its connections for dead
	m := tr.Stop(t)
	if m.LostOpen != m.Held || m.FailedNew > underWay {
		t.Errorf("want all %d open connections lost, and new ones served meanwhile by another core; %v", m.Held, m)
	}
	within(t, "the slowest new connection", m.SlowestNew, 2*time.Second)
	l.Record(t, "core's address changes (all these clients' first)", m, moved, "until it was ready at the new one")
	l.Readdress(t, core, was)
	l.readyAtAddress(t, core)
}

// readyAtAddress waits until management calls the core ready where it is now.
func (l *Lab) readyAtAddress(t *testing.T, core *Host) time.Duration {
	t.Helper()
	return l.WaitFor(t, patience, "management has the new address", func() error {
		c, err := call(t.Context(), l, admin.CoreGet, admin.Ref{Ref: core.Name})
		if err != nil {
			return err
		}
		if c.State != mesh.CoreReady || !slices.Contains(c.Addresses, netip.MustParseAddrPort(core.At(8444))) {
			return fmt.Errorf("%s is %s at %v", core.Name, c.State, c.Addresses)
		}
		return nil
	})
}
