package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/acme/acmetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(acmetest.Endless))
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func requestFor(t testing.TB, names ...string) []byte {
	t.Helper()
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// provider is the configuration that reaches d.
func provider(d *acmetest.DNS) mesh.DNSProvider {
	return mesh.DNSProvider{Kind: mesh.DNSUpdate, Server: d.Addr, KeyName: acmetest.Key, Algorithm: acmetest.Algorithm}
}

// quick asks d for everything, also as the server of its zones, and is patient
// for a second.
func quick(t testing.TB, d *acmetest.DNS) *Resolver {
	t.Helper()
	r, err := NewResolver(d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	_, r.port, err = net.SplitHostPort(d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	r.wait, r.look = time.Second, 20*time.Millisecond
	return r
}

func newClient(t testing.TB, d *acmetest.DNS, a *acmetest.Authority) *Client {
	t.Helper()
	p, err := NewProvider(provider(d), acmetest.Secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{Directory: a.URL, Roots: a.Roots, Contact: "ops@example.net", Key: newKey(t), Resolver: quick(t, d), Provider: p}
	t.Cleanup(c.Close)
	return c
}

// zone is a zone with a server.
func zone(t testing.TB, records ...string) *acmetest.DNS {
	t.Helper()
	return acmetest.NewDNS(t, []string{"example.net."}, append(records, "example.net. 60 IN NS ns.example.net.", "ns.example.net. 60 IN A 127.0.0.1")...)
}
