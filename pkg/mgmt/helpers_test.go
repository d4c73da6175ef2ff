package mgmt

import (
	"crypto/ecdsa"
	"crypto/x509"
	"net/netip"
	"testing"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mgmt/nodes"
	"github.com/meshctl/meshctl/pkg/store"
)

func newNodesForTest() *nodes.Service { return new(nodes.Service) }

// lazyStore is a store that nobody asks anything.
func lazyStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func nothing() *x509.CertificateRequest { return new(x509.CertificateRequest) }

func newKey(t testing.TB) *ecdsa.PrivateKey { return identitytest.Key(t) }
