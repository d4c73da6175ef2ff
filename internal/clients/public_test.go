//go:build clients

package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const publicCell, publicSuffix = "public", "public.test"

// Links cannot carry an authority: they are for cells with a public certificate,
// here of an authority that the program is told to trust as it trusts all others.
func TestLinksOfACellWithAPublicCertificate(t *testing.T) {
	m := theMesh(t)
	ca := newAuthority(t)
	addPublicCell(t, m, ca)
	offerAll(t, m, publicCell)
	s := subscribe(t, "links", publicCell)
	body := fromLinks(t, s.served(t, "v2rayNG/1.10.5", ""))
	l := local{
		row: "Xray " + xrayVersion + ", from links as v2rayNG", program: "xray", args: []string{"run", "-c"},
		env: []string{"SSL_CERT_FILE=" + write(t, "ca.pem", ca.pem())}, dialect: xrayDialect{},
	}
	l.useAll(t, body)
	for _, l := range locals(t) {
		t.Run(l.row+" without an authority in it", func(t *testing.T) {
			l.env = []string{"SSL_CERT_FILE=" + write(t, "ca.pem", ca.pem())}
			body := s.served(t, l.agent, "")
			until(t, l.run(t, body, l.nodes(t, body)[0].tag).pages)
		})
	}
}

// addPublicCell makes a cell whose core has a certificate that an operator
// brought.
func addPublicCell(t *testing.T, m *dev.Mesh, ca authority) {
	t.Helper()
	call(t, m, admin.CellAdd, admin.CellAddRequest{Name: publicCell, Suffix: publicSuffix, Certificate: mesh.CertificatePublic})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ready := make(chan error, 1) // which the core is once it has its certificate
	go func() { ready <- m.AddCore(ctx, "core-public", publicCell) }()
	var request admin.CellRequestView
	until(t, func(context.Context) error {
		list := call(t, m, admin.CellRequests, admin.CellRequestsRequest{Ref: publicCell})
		if len(list.Items) != 1 || !list.Items[0].Open {
			return errors.New("the core has asked for no certificate")
		}
		request = list.Items[0]
		return nil
	})
	chain := ca.sign(t, request.CSR)
	call(t, m, admin.CellCertify, admin.CellCertifyRequest{Ref: publicCell, Chains: []string{string(chain)}})
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
}

// authority stands in for a public one.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := template("an authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	return authority{key, created(t, template, template, key.Public(), key)}
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func created(t *testing.T, template, parent *x509.Certificate, public any, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a authority) pem() []byte { return encoded(a.cert) }

func encoded(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// sign makes the chain that a request asks for.
func (a authority) sign(t *testing.T, request string) []byte {
	t.Helper()
	block, _ := pem.Decode([]byte(request))
	if block == nil {
		t.Fatalf("no PEM: %q", request)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	leaf := template("")
	leaf.DNSNames, leaf.KeyUsage, leaf.ExtKeyUsage = csr.DNSNames, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return append(encoded(created(t, leaf, a.cert, csr.PublicKey, a.key)), a.pem()...)
}
