package ca_test

import (
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestNodesBelieveSignedRevocations(t *testing.T) {
	f := found(t)
	chain, rec := f.issue(t, f.identity(mesh.RoleCore), newKey(t))
	now := time.Now()
	signed, err := f.SignRevocation(mesh.Revocation{
		ID: "1", Node: rec.Node, IssuedBefore: now, At: now, Until: rec.NotAfter, By: "admin:x", Reason: "stolen",
	})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(f.root.Cert())
	got, err := identity.VerifyRevocation(roots, signed)
	if err != nil || got.Node != rec.Node || got.Reason != "stolen" {
		t.Fatalf("got %+v, %v", got, err)
	}
	leaf := parse(t, chain[0])
	if !got.Covers(rec.Node, rec.Serial, leaf.NotBefore.Add(mesh.Backdate)) {
		t.Fatal("a certificate issued a moment before is not covered")
	}
	foreign := x509.NewCertPool()
	foreign.AddCert(found(t).root.Cert())
	if _, err := identity.VerifyRevocation(foreign, signed); !errors.Is(err, mesh.ErrDenied) {
		t.Fatalf("another mesh believes it: %v", err)
	}
	for name, r := range map[string]mesh.Revocation{
		"nothing":           {},
		"a node without at": {ID: "1", Node: rec.Node, IssuedBefore: now, Until: now},
		"a node, no time":   {ID: "1", Node: rec.Node, At: now, Until: now},
		"serial and node":   {ID: "1", Serial: "5", Node: rec.Node, IssuedBefore: now, At: now, Until: now},
	} {
		if _, err := f.SignRevocation(r); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCRL(t *testing.T) {
	f := found(t)
	_, rec := f.issue(t, f.identity(mesh.RoleCore), newKey(t))
	now := time.Now()
	der, err := f.CRL(big.NewInt(7), []ca.RevokedCert{{Serial: rec.Serial, At: now}}, now, now.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.CheckSignatureFrom(f.inter); err != nil {
		t.Fatal(err)
	}
	if list.Number.Int64() != 7 || len(list.RevokedCertificateEntries) != 1 || list.RevokedCertificateEntries[0].SerialNumber.String() != rec.Serial {
		t.Fatalf("list %v of %v", list.Number, list.RevokedCertificateEntries)
	}
	if _, err := f.CRL(big.NewInt(8), []ca.RevokedCert{{Serial: "x"}}, now, now); !errors.Is(err, mesh.ErrInvalid) {
		t.Fatalf("a serial that is no number: %v", err)
	}
}
