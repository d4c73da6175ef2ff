package identity_test

import (
	"crypto/x509"
	"math/big"
	"net/url"
	"testing"

	"github.com/meshctl/meshctl/pkg/identity"
)

// FuzzPeerIdentity: a certificate's URI is an identity only in its one form.
func FuzzPeerIdentity(f *testing.F) {
	f.Add("spiffe://mesh-aaaaaaaaaaaaaaaa/core/core-bbbbbbbbbbbbbbbb")
	f.Add("spiffe://mesh-aaaaaaaaaaaaaaaa/core/core-bbbbbbbbbbbbbbbb/")
	f.Add("spiffe://mesh-aaaaaaaaaaaaaaaa/mgmt/core-bbbbbbbbbbbbbbbb")
	f.Add("spiffe://u@mesh-aaaaaaaaaaaaaaaa:1/core/core-bbbbbbbbbbbbbbbb?q#f")
	f.Add("spiffe://mesh-aaaaaaaaaaaaaaaa/core/core%2dbbbbbbbbbbbbbbbb")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		got, err := identity.IdentityOf(&x509.Certificate{SerialNumber: big.NewInt(1), URIs: []*url.URL{u}})
		if err == nil && got != u.String() {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// FuzzRevocationPayload: whatever is accepted names exactly one thing.
func FuzzRevocationPayload(f *testing.F) {
	f.Add([]byte(`{"id":"1","serial":"5","at":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00Z"}`))
	f.Add([]byte(`{"id":"1","node":"core/x","issuedBefore":"2026-01-01T00:00:00Z","at":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00Z"}`))
	f.Add([]byte(`{"id":"1","serial":"-5","SERIAL":"7","at":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00Z"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := identity.ParseRevocation(payload)
		if err != nil {
			return
		}
		if (r.Serial != "") == (r.Node != "" && !r.IssuedBefore.IsZero()) {
			t.Fatalf("accepted %+v", r)
		}
		if r.Serial != "" {
			if _, ok := new(big.Int).SetString(r.Serial, 10); !ok {
				t.Fatalf("accepted serial %q", r.Serial)
			}
		}
	})
}
