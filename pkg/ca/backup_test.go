package ca_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func certs(t testing.TB, chain [][]byte) []*x509.Certificate {
	t.Helper()
	out := make([]*x509.Certificate, len(chain))
	for i, der := range chain {
		out[i] = parse(t, der)
	}
	return out
}

func TestBackupCertificate(t *testing.T) {
	f, foreign := found(t), found(t)
	now := time.Now()
	issue := func(f *fixture) []*x509.Certificate {
		chain, err := f.IssueBackup(newKey(t).Public(), now)
		if err != nil {
			t.Fatal(err)
		}
		return certs(t, chain)
	}
	chain, other := issue(f), issue(foreign)
	mgmt, _ := f.issue(t, f.identity(mesh.RoleMgmt), newKey(t))
	root := sha256.Sum256(f.root.Cert().Raw)
	if life := chain[0].NotAfter.Sub(now); life > ca.BackupLife || life < ca.BackupLife-2*time.Second {
		t.Errorf("it lives for %v", life)
	}
	for name, tt := range map[string]struct {
		chain []*x509.Certificate
		root  [32]byte
		mesh  mesh.ID
		at    time.Time
		ok    bool
	}{
		"as it was issued":             {chain, root, f.mesh, now, true},
		"on its last day":              {chain, root, f.mesh, now.Add(ca.BackupLife - time.Hour), true},
		"after its end":                {chain, root, f.mesh, now.Add(ca.BackupLife + time.Hour), false},
		"before it began":              {chain, root, f.mesh, now.Add(-time.Hour), false},
		"asked for another root":       {chain, sha256.Sum256(foreign.root.Cert().Raw), f.mesh, now, false},
		"asked for another mesh":       {chain, root, foreign.mesh, now, false},
		"of another mesh":              {other, root, f.mesh, now, false},
		"another mesh, our root added": {append(other[:2:2], f.root.Cert()), root, foreign.mesh, now, false},
		"without the root":             {chain[:2], root, f.mesh, now, false},
		"without the intermediate":     {[]*x509.Certificate{chain[0], chain[2]}, root, f.mesh, now, false},
		"nothing":                      {nil, root, f.mesh, now, false},
		"too long a chain":             {append(chain[:3:3], chain...), root, f.mesh, now, false},
		"a server's own certificate":   {certs(t, mgmt), root, f.mesh, now, false},
		"the intermediate alone":       {chain[1:], root, f.mesh, now, false},
	} {
		server, err := identity.VerifyBackupChain(tt.chain, tt.root, tt.mesh, tt.at)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, mesh.ErrDenied) {
			t.Errorf("%s: %v, want accepted %v", name, err, tt.ok)
		}
		if tt.ok && mesh.IssuerName(f.mesh, server) != f.inter.Subject.CommonName {
			t.Errorf("%s: signed by %s", name, server)
		}
	}
}

func TestBackupCertificateRefuses(t *testing.T) {
	f := found(t)
	t.Setenv("GODEBUG", "rsa1024min=0") // to be able to make the weak one
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.IssueBackup(weak.Public(), time.Now()); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("a weak key: %v", err)
	}
	if _, err := f.IssueBackup(newKey(t).Public(), f.inter.NotAfter.Add(time.Second)); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("after the end of the intermediate: %v", err)
	}
	chain, err := f.IssueBackup(newKey(t).Public(), f.inter.NotAfter.Add(-time.Hour))
	if err != nil || parse(t, chain[0]).NotAfter.After(f.inter.NotAfter) {
		t.Errorf("it outlives the intermediate: %v", err)
	}
}
