package nodes

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (n *network) revoke(f *fake) mesh.SignedRevocation {
	n.t.Helper()
	r := n.ids.Revoke(n.t, mesh.Revocation{ID: store.NewTimeID(time.Now()), Node: f.id.Node(), IssuedBefore: time.Now().Add(time.Second), By: "test"})
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.Revocations, r.Record.ID, r) })
	return r
}

// C-08: two seconds, everywhere; here it is the way from etcd to the nodes.
func TestRevocationIsPushed(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	bystander, victim := n.addEntry("bystander"), n.addEntry("victim")
	watch, cut := bystander.greet(), victim.greet()
	first := until(watch, (*controlpb.MgmtMessage).GetRevocations)
	if !first.GetSnapshot() || len(first.GetRecords()) != 0 {
		t.Errorf("first %v, want an empty snapshot", first)
	}

	rec := n.revoke(victim)
	began := time.Now()
	m := until(watch, (*controlpb.MgmtMessage).GetRevocations)
	t.Logf("revocation pushed in %v", time.Since(began))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("pushed after %v", took)
	}
	if m.GetSnapshot() || m.GetBase() != first.GetRevision() || len(m.GetRecords()) != 1 {
		t.Fatalf("pushed %v, want one record after %d", m, first.GetRevision())
	}
	got := m.GetRecords()[0]
	verified, err := identity.VerifyRevocation(n.ids.Roots(), mesh.SignedRevocation{Payload: got.GetPayload(), Signature: got.GetSignature(), Signer: got.GetSigner()})
	if err != nil || verified.Node != rec.Record.Node {
		t.Errorf("record %+v, %v", verified, err)
	}
	cut.wantEnd(codes.PermissionDenied, "was revoked")
	t.Logf("stream cut in %v", time.Since(began))

	p := identity.Peer{Identity: victim.id, Issued: time.Now()}
	if err := n.svc.Revocations.Check(p); !errors.Is(err, mesh.ErrDenied) {
		t.Errorf("Check = %v, want ErrDenied", err)
	}
	watch.ack(controlpb.Ack_KIND_REVOCATIONS, m.GetRevision(), "")
	eventually(t, "acknowledged", func() bool { return n.status(bystander).RevokedRev == m.GetRevision() })
}

// A server knows what is revoked before it serves anybody.
func TestRevokedBeforeStart(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f, other := n.addEntry("e"), n.addEntry("o")
	n.stop()
	n.revoke(f)
	n.start(quick())
	p := identity.Peer{Identity: f.id, Issued: time.Now().Add(-time.Minute)}
	if err := n.svc.Revocations.Check(p); !errors.Is(err, mesh.ErrDenied) {
		t.Errorf("Check = %v, want ErrDenied", err)
	}
	m := until(other.greet(), (*controlpb.MgmtMessage).GetRevocations)
	if !m.GetSnapshot() || len(m.GetRecords()) != 1 {
		t.Errorf("sent %v, want one record", m)
	}
}

// One record that nobody of the mesh signed must not keep the others from
// being in force.
func TestBadRevocationIsLeftOut(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f, other := n.addEntry("e"), n.addEntry("o")
	watch := other.greet()
	until(watch, (*controlpb.MgmtMessage).GetRevocations)
	forged := identitytest.NewWithID(t, n.ids.ID).Revoke(t, mesh.Revocation{ID: store.NewTimeID(time.Now()), Node: other.id.Node()})
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.Revocations, forged.Record.ID, forged) })
	n.revoke(f)
	for sent := 0; sent == 0; {
		m := until(watch, (*controlpb.MgmtMessage).GetRevocations)
		for _, r := range m.GetRecords() {
			if string(r.GetPayload()) == string(forged.Payload) {
				t.Error("the forged record was sent on")
			}
			sent++
		}
	}
	eventually(t, "the genuine one is in force", func() bool { return n.svc.Revocations.Check(identity.Peer{Identity: f.id}) != nil })
	if err := n.svc.Revocations.Check(identity.Peer{Identity: other.id}); err != nil {
		t.Errorf("the forged one is in force: %v", err)
	}
}
