package ca_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestIssueByRole(t *testing.T) {
	f := found(t)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for role, usage := range map[mesh.Role][]x509.ExtKeyUsage{
		mesh.RoleMgmt: both, mesh.RoleCore: both, mesh.RoleEntry: client, mesh.RoleAdmin: client,
	} {
		t.Run(string(role), func(t *testing.T) {
			id, key := f.identity(role), newKey(t)
			chain, rec := f.issue(t, id, key)
			leaf := parse(t, chain[0])
			if len(chain) != 3 || !slices.Equal(chain[2], f.root.Cert().Raw) {
				t.Fatal("the chain does not end in the root")
			}
			if !slices.Equal(leaf.ExtKeyUsage, usage) || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
				t.Errorf("usage %v %v", leaf.KeyUsage, leaf.ExtKeyUsage)
			}
			if got := time.Until(leaf.NotBefore.Add(mesh.Backdate)); got > 0 || got < -10*time.Second {
				t.Errorf("backdated by %v", mesh.Backdate-got)
			}
			want := mesh.CertRecord{
				Serial: leaf.SerialNumber.String(), Node: id.Node(), KeyHash: identity.KeyHash(key.Public()),
				Issuer: rec.Issuer, Issued: leaf.NotBefore.Add(mesh.Backdate), NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
			}
			if rec != want || f.records.certs[rec.Serial] != want {
				t.Errorf("record %+v\nwant   %+v", rec, want)
			}
			if n, err := identity.NewNode(id, chain, key); err != nil || n.Identity() != id {
				t.Errorf("a node cannot use it: %v", err)
			}
		})
	}
}

// TestRequestNamesAreIgnored is C-04: a request may ask for anything and gets
// its own server-side identity, or nothing.
func TestRequestNamesAreIgnored(t *testing.T) {
	f := found(t)
	uri := func(id mesh.Identity) []*url.URL {
		u, err := url.Parse(id.String())
		if err != nil {
			t.Fatal(err)
		}
		return []*url.URL{u}
	}
	extension := func(oid asn1.ObjectIdentifier, value any) []pkix.Extension {
		der, err := asn1.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return []pkix.Extension{{Id: oid, Critical: true, Value: der}}
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("n%d.example.net", i)
	}
	tests := map[string]*x509.CertificateRequest{
		"another core's name":     {URIs: uri(f.identity(mesh.RoleCore))},
		"a mgmt server's name":    {URIs: uri(f.identity(mesh.RoleMgmt)), Subject: pkix.Name{CommonName: "mgmt-1"}},
		"an entry's name":         {URIs: uri(f.identity(mesh.RoleEntry))},
		"an address":              {IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		"a wildcard":              {DNSNames: []string{"*.example.net", "*"}},
		"to be a CA":              {ExtraExtensions: extension(asn1.ObjectIdentifier{2, 5, 29, 19}, struct{ CA bool }{true})},
		"another usage":           {ExtraExtensions: extension(asn1.ObjectIdentifier{2, 5, 29, 37}, []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 3}})},
		"to sign certificates":    {ExtraExtensions: extension(asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{0x06}, BitLength: 7})},
		"an e-mail address":       {EmailAddresses: []string{"root@example.net"}},
		"two hundred names":       {DNSNames: many},
		"a template in its name":  {Subject: pkix.Name{CommonName: `{{ .Insecure.CR }}"}`}},
		"etcd's user in its name": {Subject: pkix.Name{CommonName: "root", Organization: []string{"system:masters"}}},
	}
	for name, req := range tests {
		t.Run(name, func(t *testing.T) {
			id := f.identity(mesh.RoleCore)
			chain, _, err := f.Issue(t.Context(), ca.Request{Identity: id, CSR: csrOf(t, newKey(t), req), Life: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			c := parse(t, chain[0])
			if len(c.URIs) != 1 || c.URIs[0].String() != id.String() {
				t.Errorf("names %v", c.URIs)
			}
			if len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses) > 0 || c.Subject.String() != "" {
				t.Errorf("copied: %v %v %v %q", c.DNSNames, c.IPAddresses, c.EmailAddresses, c.Subject)
			}
			if c.IsCA || c.KeyUsage != x509.KeyUsageDigitalSignature || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageCodeSigning) {
				t.Errorf("CA %v, usage %v %v", c.IsCA, c.KeyUsage, c.ExtKeyUsage)
			}
		})
	}
}

func TestCheckCSR(t *testing.T) {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey := func(bits int) crypto.Signer {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	curve := func(c elliptic.Curve) crypto.Signer {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	t.Setenv("GODEBUG", "rsa1024min=0") // to be able to make the weak one
	plain := func(k crypto.Signer) []byte { return csrOf(t, k, &x509.CertificateRequest{}) }
	good := plain(newKey(t))
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example.net", i)
	}
	tests := map[string]struct {
		der []byte
		ok  bool
	}{
		"P-256":            {good, true},
		"P-384":            {plain(curve(elliptic.P384())), true},
		"Ed25519":          {plain(edKey), true},
		"RSA of 2048 bits": {plain(rsaKey(2048)), true},
		"RSA of 1024 bits": {plain(rsaKey(1024)), false},
		"P-224":            {plain(curve(elliptic.P224())), false},
		"a thousand names": {csrOf(t, newKey(t), &x509.CertificateRequest{DNSNames: names}), false},
		"nothing":          {nil, false},
		"a megabyte":       {make([]byte, 1<<20), false},
		"cut short":        {good[:len(good)-3], false},
		"followed by more": {append(slices.Clone(good), 0), false},
		"a changed byte":   {changed(good), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := ca.CheckCSR(tt.der); (err == nil) != tt.ok || err != nil && !errors.Is(err, mesh.ErrInvalid) {
				t.Fatalf("got %v, accepted should be %v", err, tt.ok)
			}
			f := found(t)
			if _, _, err := f.Issue(t.Context(), ca.Request{Identity: f.identity(mesh.RoleCore), CSR: tt.der, Life: time.Hour}); (err == nil) != tt.ok {
				t.Fatalf("issue: %v", err)
			}
		})
	}
}

func changed(b []byte) []byte {
	c := slices.Clone(b)
	c[len(c)-1] ^= 1
	return c
}

func TestIssueRefuses(t *testing.T) {
	f := found(t)
	csr := csrOf(t, newKey(t), &x509.CertificateRequest{})
	core := f.identity(mesh.RoleCore)
	tests := map[string]ca.Request{
		"another mesh":        {Identity: mesh.Identity{Mesh: mesh.NewID(), Role: core.Role, ID: core.ID}, CSR: csr, Life: time.Hour},
		"an id of no role":    {Identity: mesh.Identity{Mesh: f.mesh, Role: mesh.RoleEntry, ID: core.ID}, CSR: csr, Life: time.Hour},
		"nobody":              {CSR: csr, Life: time.Hour},
		"no life":             {Identity: core, CSR: csr},
		"a life in the past":  {Identity: core, CSR: csr, Life: -time.Hour},
		"an id with a slash":  {Identity: mesh.Identity{Mesh: f.mesh, Role: mesh.RoleCore, ID: core.ID + "/x"}, CSR: csr, Life: time.Hour},
		"a request of no key": {Identity: core, CSR: []byte("hello"), Life: time.Hour},
	}
	for name, r := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := f.Issue(t.Context(), r); !errors.Is(err, mesh.ErrInvalid) {
				t.Fatalf("got %v", err)
			}
		})
	}
	if len(f.records.certs) != 0 {
		t.Fatal("a refused request is on record")
	}
}

func TestIssueEndsWithTheIntermediate(t *testing.T) {
	f := found(t)
	chain, _, err := f.Issue(t.Context(), ca.Request{
		Identity: f.identity(mesh.RoleCore), CSR: csrOf(t, newKey(t), &x509.CertificateRequest{}), Life: 100 * 365 * 24 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if leaf := parse(t, chain[0]); !leaf.NotAfter.Equal(f.inter.NotAfter) {
		t.Fatalf("leaf until %v, intermediate until %v", leaf.NotAfter, f.inter.NotAfter)
	}
}

// TestRenewal is C-07: who renews must hold a certificate that is on record,
// its own, and not revoked.
func TestRenewal(t *testing.T) {
	f := found(t)
	id := f.identity(mesh.RoleCore)
	_, first := f.issue(t, id, newKey(t))
	_, others := f.issue(t, f.identity(mesh.RoleCore), newKey(t))
	renew := func(serial string) error {
		_, rec, err := f.Issue(t.Context(), ca.Request{
			Identity: id, CSR: csrOf(t, newKey(t), &x509.CertificateRequest{}), Life: time.Hour, Replaces: serial,
		})
		if err == nil && rec.Replaces != serial {
			t.Errorf("the record does not say what it replaces")
		}
		return err
	}
	if err := renew(first.Serial); err != nil {
		t.Fatal(err)
	}
	if err := renew(others.Serial); !errors.Is(err, mesh.ErrDenied) {
		t.Fatalf("with another node's certificate: %v", err)
	}
	if err := renew("12345"); !errors.Is(err, mesh.ErrDenied) {
		t.Fatalf("with a certificate that is not on record: %v", err)
	}
	f.records.revoked[first.Serial] = true
	if err := renew(first.Serial); !errors.Is(err, mesh.ErrDenied) {
		t.Fatalf("with a revoked certificate: %v", err)
	}
}

func TestWhatIsNotOnRecordIsNotReturned(t *testing.T) {
	f := found(t)
	req := ca.Request{Identity: f.identity(mesh.RoleCore), Life: time.Hour,
		CSR: csrOf(t, newKey(t), &x509.CertificateRequest{Subject: pkix.Name{CommonName: "canary-in-the-request"}})}
	f.records.fail = fmt.Errorf("no quorum: %w", mesh.ErrUnavailable)
	chain, _, err := f.Issue(t.Context(), req)
	if chain != nil || !errors.Is(err, mesh.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "canary") {
		t.Fatal("the error carries the request")
	}
	f.records.fail, f.records.block = nil, true
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if chain, _, err := f.Issue(ctx, req); chain != nil || !errors.Is(err, mesh.ErrUnavailable) {
		t.Fatalf("a store that hangs: %v", err)
	}
}

func TestNewRefusesPartsThatDoNotFit(t *testing.T) {
	f, other := found(t), found(t)
	good := ca.Config{Mesh: f.mesh, Server: mesh.NewServerID(), Root: f.root.Cert(), Intermediate: f.inter, Key: f.key, Records: f.records}
	for name, change := range map[string]func(*ca.Config){
		"another mesh":         func(c *ca.Config) { c.Mesh = other.mesh },
		"another root":         func(c *ca.Config) { c.Root = other.root.Cert() },
		"another intermediate": func(c *ca.Config) { c.Intermediate = other.inter },
		"another key":          func(c *ca.Config) { c.Key = other.key },
		"no records":           func(c *ca.Config) { c.Records = nil },
		"no server":            func(c *ca.Config) { c.Server = "" },
		"the root as itself":   func(c *ca.Config) { c.Intermediate = f.root.Cert() },
		"a leaf instead of one": func(c *ca.Config) {
			chain, _ := f.issue(t, f.identity(mesh.RoleMgmt), f.key)
			c.Intermediate = parse(t, chain[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			change(&cfg)
			if _, err := ca.New(cfg); !errors.Is(err, mesh.ErrInvalid) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func BenchmarkIssue(b *testing.B) {
	f := found(b)
	id, csr := f.identity(mesh.RoleCore), csrOf(b, newKey(b), &x509.CertificateRequest{})
	for b.Loop() {
		if _, _, err := f.Issue(b.Context(), ca.Request{Identity: id, CSR: csr, Life: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
}
