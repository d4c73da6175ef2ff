package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestEntryConfiguration(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	l := f.greet()
	first := until(l, (*controlpb.MgmtMessage).GetConfig)
	if !slices.Equal(first.GetSuffixes(), []string{"a.example.net"}) || time.Duration(first.GetStaleIfErrorNanos()) != 24*time.Hour || first.GetRevision() == 0 {
		t.Errorf("configuration %v", first)
	}
	l.ack(controlpb.Ack_KIND_CONFIG, first.GetRevision(), "")
	eventually(t, "there is a node to try the next one on", func() bool {
		_, known := n.svc.view.entries.Get(mesh.EntryID(f.id.ID))
		st, _ := n.svc.view.status.Get(f.id.Node())
		return known && st.Connected && st.ConfigRev == first.GetRevision()
	})

	second := mesh.Cell{ID: mesh.NewCellID(), Name: "b", Suffix: "b.example.net", State: mesh.CellActive}
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.Cells, second.ID, second) })
	next := until(l, (*controlpb.MgmtMessage).GetConfig)
	if !slices.Equal(next.GetSuffixes(), []string{"a.example.net", "b.example.net"}) || next.GetRevision() <= first.GetRevision() {
		t.Errorf("configuration %v", next)
	}

	// H-06: what does not run is told, and what ran is in force again.
	l.ack(controlpb.Ack_KIND_CONFIG, next.GetRevision(), "cannot bind: in use")
	if e := n.wantEvent(mesh.EventConfigRefused, f.id.Node()); !strings.Contains(e.Cause, "is parked") || !strings.Contains(e.Cause, "cannot bind: in use") {
		t.Errorf("event %+v", e)
	}
	if back := until(l, (*controlpb.MgmtMessage).GetConfig); back.GetRevision() != first.GetRevision() {
		t.Errorf("configuration %v, want the first again", back)
	}
	l.ack(controlpb.Ack_KIND_CONFIG, first.GetRevision(), "")
	eventually(t, "status tells", func() bool { st := n.status(f); return st.Failure == "" && st.ConfigRev == first.GetRevision() })

	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Cells, second.ID, func(c *mesh.Cell) error { c.Suffix = "c.example.net"; return nil })
	})
	last := until(l, (*controlpb.MgmtMessage).GetConfig)
	if !slices.Equal(last.GetSuffixes(), []string{"a.example.net", "c.example.net"}) || last.GetRevision() <= next.GetRevision() {
		t.Errorf("configuration %v", last)
	}
	l.ack(controlpb.Ack_KIND_CONFIG, last.GetRevision(), "")
	eventually(t, "status tells", func() bool { st := n.status(f); return st.Failure == "" && st.ConfigRev == last.GetRevision() })

	// Who has it already is not sent it again, and nothing changes by itself.
	l.hangUp()
	eventually(t, "gone", func() bool { return len(n.svc.Connected()) == 0 })
	f.hello.Boot, f.hello.MeshEpoch, f.hello.ConfigRevision = 2, 1, last.GetRevision()
	l = f.greet()
	never(t, "the same configuration again", func() bool {
		return len(l.in) > 0 && (<-l.in).GetConfig() != nil
	})
}

func TestCoreConfiguration(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error {
			c.MgmtAddresses = []string{"93.184.216.34:8443", "127.0.0.1:8443"}
			c.EntryAddresses = []string{"93.184.216.35:443"}
			return nil
		})
	})
	f := n.addCore("c")
	l := f.greet()
	var c *controlpb.Config
	for c == nil || len(c.GetMeshAddresses()) == 0 { // the first may come before they are resolved
		c = until(l, (*controlpb.MgmtMessage).GetConfig)
	}
	if c.GetCellId() != string(n.cell.ID) || c.GetCellSuffix() != "a.example.net" || c.GetCellCertificate() != "private" || c.GetDrain() {
		t.Errorf("configuration %v", c)
	}
	if want := []string{"127.0.0.1:8443", "93.184.216.34", "93.184.216.35"}; !slices.Equal(c.GetMeshAddresses(), want) {
		t.Errorf("addresses of the mesh %v, want %v", c.GetMeshAddresses(), want)
	}
}

// Cores of a cell are told the ways in, and of its paths those that are valid; one
// that ends does so by itself.
func TestWaysInReachCores(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addCore("c")
	l := f.greet()
	next := func() *controlpb.Config {
		c := until(l, (*controlpb.MgmtMessage).GetConfig)
		l.ack(controlpb.Ack_KIND_CONFIG, c.GetRevision(), "")
		return c
	}
	c := next()
	for len(c.GetWebsocketPaths()) == 0 { // a cell that has none is given some
		c = next()
	}
	if !slices.Contains(c.GetOffers(), "vless-ws") || slices.Contains(c.GetOffers(), "socks-tcp") || len(c.GetGrpcServices()) != 1 {
		t.Errorf("configuration %v, want what a cell offers that names nothing", c)
	}
	eventually(t, "the first one runs", func() bool { return n.status(f).ConfigRev > 0 })
	var cell mesh.Cell
	rotate := func(overlap time.Duration) {
		n.change(func(tx *store.Tx) error {
			return store.Update(tx, n.store.Cells, n.cell.ID, func(c *mesh.Cell) error {
				c.Offers = []mesh.Offer{{Protocol: mesh.ProtocolSOCKS, Transport: mesh.TransportTCP}}
				c.RotatePaths(time.Now(), overlap)
				cell = *c
				return nil
			})
		})
	}
	rotate(0)
	if c := next(); !slices.Equal(c.GetOffers(), []string{"socks-tcp"}) || !slices.Equal(c.GetWebsocketPaths(), []string{cell.Paths[0].WebSocket}) {
		t.Errorf("configuration %v", c)
	}
	rotate(4 * time.Second) // both are rolled out before one ends
	for c := next(); len(c.GetWebsocketPaths()) != 2; c = next() {
	}
	last := cell.Paths[1]
	if c := next(); !slices.Equal(c.GetWebsocketPaths(), []string{last.WebSocket}) || !slices.Equal(c.GetGrpcServices(), []string{last.GRPC}) {
		t.Errorf("configuration %v, want the paths that are left", c)
	}
}

func TestEntriesAskForTheSubscriptionService(t *testing.T) {
	cells := map[mesh.CellID]mesh.Cell{
		"a": {Suffix: "a.example.net", State: mesh.CellCompromised}, "b": {Suffix: "b.example.net", State: mesh.CellRetired},
	}
	c := mesh.Config{Subscription: mesh.SubscriptionSettings{Name: "sub.example.org"}}
	if got := wantedConfigs(cells, c, nil, time.Now())[mesh.EntriesGroup].Suffixes; !slices.Equal(got, []mesh.ServerName{"a.example.net", "sub.example.org"}) {
		t.Errorf("suffixes %v", got)
	}
}

// A node that stays connected learns where the servers are now, once.
func TestAddressesOfServersThatChange(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addCore("c")
	l := f.greet()
	want := []string{"127.0.0.1:8443", "127.0.0.1:8444"}
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error { c.MgmtAddresses = want; return nil })
	})
	if got := until(l, (*controlpb.MgmtMessage).GetAddresses); !slices.Equal(got.GetMgmt(), want) {
		t.Errorf("addresses %v, want %v", got.GetMgmt(), want)
	}
	never(t, "the same addresses again", func() bool { return len(l.in) > 0 && (<-l.in).GetAddresses() != nil })
}

func TestCellCertificate(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	sealed, err := n.store.Seal(store.CellKeyPlace(n.cell.ID), "the key")
	if err != nil {
		t.Fatal(err)
	}
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Cells, n.cell.ID, func(c *mesh.Cell) error { c.CACert, c.CAKey = "the ca", sealed; return nil })
	})
	n.svc.SignCell = func(ca string, key mesh.Secret, csr []byte, suffix mesh.ServerName, life time.Duration, _ time.Time) ([][]byte, error) {
		if ca != "the ca" || key.Reveal() != "the key" || life != 90*24*time.Hour {
			t.Errorf("sign with %q for %v", ca, life)
		}
		return [][]byte{append([]byte("leaf of "+suffix+" for "), csr...), []byte(ca)}, nil
	}
	f := n.addCore("c")
	l := f.greet()
	ask := func(cell mesh.CellID, csr []byte) *controlpb.CellCertificate {
		l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_CellRequest{CellRequest: &controlpb.CellRequest{Csr: csr, CellId: string(cell)}}})
		return until(l, (*controlpb.MgmtMessage).GetCellCertificate)
	}
	got := ask(n.cell.ID, []byte("csr"))
	if len(got.GetChain()) != 2 || string(got.GetChain()[0]) != "leaf of a.example.net for csr" || got.GetError() != "" {
		t.Errorf("certificate %v", got)
	}
	n.wantEvent(mesh.EventCellCertificated, "cell/"+string(n.cell.ID))
	if got := ask(mesh.NewCellID(), []byte("csr")); len(got.GetChain()) != 0 || !strings.Contains(got.GetError(), "not the cell of this core") {
		t.Errorf("another cell's certificate: %v", got)
	}
	if got := ask(n.cell.ID, make([]byte, 20<<10)); !strings.Contains(got.GetError(), "too long") {
		t.Errorf("a request of 20 KiB: %v", got)
	}
	if got := ask(n.cell.ID, []byte("csr")); !strings.Contains(got.GetError(), "too often") {
		t.Errorf("the fourth request at once: %v", got)
	}
}

func TestUsageAddsUp(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addCore("c")
	l := f.greet()
	id, elsewhere := n.addDevice("laptop").ID, mesh.Device{ID: mesh.NewDeviceID(), Name: "other", Member: n.member.ID, State: mesh.DeviceActive}
	n.change(func(tx *store.Tx) error {
		other := mesh.Cell{ID: mesh.NewCellID(), Name: "b", Suffix: "b.example.net", State: mesh.CellActive}
		elsewhere.Assigned.Cell = other.ID
		if err := store.Create(tx, n.store.Cells, other.ID, other); err != nil {
			return err
		}
		return store.Create(tx, n.store.Devices, elsewhere.ID, elsewhere)
	})
	eventually(t, "core and devices are known", func() bool { return len(n.svc.view.devices.All()) == 2 && len(n.svc.view.cores.All()) == 1 })
	for range 2 {
		l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Streams: 7, Usage: []*controlpb.DeviceUsage{
			{Device: string(id), Up: 1, Down: 10, Connections: 1}, {Device: string(id), Up: -5, Down: 1<<63 - 1}, {Device: "nonsense", Up: 1},
			{Device: string(elsewhere.ID), Up: 1}, {Device: string(mesh.NewDeviceID()), Up: 1}, // not for this core to say
		}}}})
	}
	eventually(t, "usage", func() bool {
		if _, err := n.svc.flushUsage(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		u, err := n.store.Traffic(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(u.Devices) == 1 && u.Devices[id].Traffic == (mesh.Traffic{Up: 2, Down: 1<<63 - 1, Connections: 2})
	})
	eventually(t, "streams in status", func() bool { return n.status(f).Streams == 7 })
}
