package nodes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// certify is a request, and a certificate for its key.
func certify(t *testing.T) (csr, leaf []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if csr, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key); err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	if leaf, err = x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	return csr, leaf
}

// A core of a public cell is told that its certificate is being made, and gets it
// when it is there: that one, once, and nobody else.
func TestPublicCellCertificate(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Cells, n.cell.ID, func(c *mesh.Cell) error { c.Certificate = mesh.CertificatePublic; return nil })
	})
	csr, leaf := certify(t)
	_, foreign := certify(t)
	var at atomic.Pointer[[][]byte] // the chain there is
	n.svc.PublicCell = func(_ context.Context, core mesh.Core, cell mesh.Cell, asked []byte) ([][]byte, error) {
		if cell.ID != n.cell.ID || core.Cell != n.cell.ID || string(asked) != string(csr) {
			t.Errorf("core %s of %s asks %q", core.ID, cell.ID, asked)
		}
		if c := at.Load(); c != nil {
			return *c, nil
		}
		return nil, nil
	}
	f, other := n.addCore("c"), n.addCore("d")
	l, idle := f.greet(), other.greet()
	ask := func() *controlpb.CellCertificate {
		l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_CellRequest{CellRequest: &controlpb.CellRequest{Csr: csr, CellId: string(n.cell.ID)}}})
		return until(l, (*controlpb.MgmtMessage).GetCellCertificate)
	}
	if got := ask(); !got.GetPending() || len(got.GetChain()) != 0 || got.GetError() != "" {
		t.Fatalf("got %v, want pending", got)
	}
	core := mesh.CoreID(f.id.ID)
	n.svc.DeliverCell(core, [][]byte{foreign})
	n.svc.DeliverCell(core, nil)
	n.svc.DeliverCell(mesh.CoreID(other.id.ID), [][]byte{leaf})
	n.svc.DeliverCell(mesh.NewCoreID(), [][]byte{leaf})
	n.svc.DeliverCell(core, [][]byte{leaf})
	n.svc.DeliverCell(core, [][]byte{leaf})
	if got := until(l, (*controlpb.MgmtMessage).GetCellCertificate); len(got.GetChain()) != 1 || string(got.GetChain()[0]) != string(leaf) {
		t.Errorf("got %v", got)
	}
	more := func(l *line) func() bool {
		return func() bool { return len(l.in) > 0 && (<-l.in).GetCellCertificate() != nil }
	}
	never(t, "a certificate again", more(l))
	never(t, "a certificate for a core that did not ask", more(idle))
	at.Store(&[][]byte{leaf})
	if got := ask(); got.GetPending() || len(got.GetChain()) != 1 {
		t.Errorf("got %v, want the certificate at once", got)
	}
	n.svc.DeliverCell(core, [][]byte{leaf})
	never(t, "a certificate that was given already", more(l))
}

func TestAServerWithoutPublicCertificatesSaysSo(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Cells, n.cell.ID, func(c *mesh.Cell) error { c.Certificate = mesh.CertificatePublic; return nil })
	})
	l := n.addCore("c").greet()
	l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_CellRequest{CellRequest: &controlpb.CellRequest{Csr: []byte("x"), CellId: string(n.cell.ID)}}})
	if got := until(l, (*controlpb.MgmtMessage).GetCellCertificate); !strings.Contains(got.GetError(), "no public certificates") {
		t.Errorf("got %v", got)
	}
}
