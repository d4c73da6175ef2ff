package nodes

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// A node whose certificate was issued by a server that is removed is told at
// once, on each stream once, where to go and then what to do.
func TestNodesOfARemovedIssuerAreToldToRenew(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	issuer := mesh.Server{ID: n.ids.Server, Name: "stolen", State: mesh.ServerMember}
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.Servers, issuer.ID, issuer) })
	f := n.addEntry("e")
	serial := f.node.Leaf().SerialNumber.String()
	l := f.greet()
	until(l, (*controlpb.MgmtMessage).GetConfig) // and nothing of renewal before it
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Servers, issuer.ID, func(s *mesh.Server) error { s.State = mesh.ServerRemoved; return nil })
	})
	began := time.Now()
	m := until(l, (*controlpb.MgmtMessage).GetRenewNow)
	t.Logf("told after %v", time.Since(began))
	if m.GetSerial() != serial || m.GetWithinNanos() <= 0 {
		t.Errorf("told %v, of the certificate %s", m, serial)
	}
	eventually(t, "the certificate it came with is on record", func() bool { return n.status(f).Certificate == serial })
	l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Certificate: "4711"}}})
	eventually(t, "the next certificate is on record", func() bool { return n.status(f).Certificate == "4711" })
	l.hangUp()
	f.hello.Boot++
	if got := until(f.greet(), (*controlpb.MgmtMessage).GetRenewNow).GetSerial(); got != serial {
		t.Errorf("on a later stream with the old certificate: told of %q", got)
	}
}
