package ca_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// memory is Records without etcd.
type memory struct {
	mu      sync.Mutex
	certs   map[string]mesh.CertRecord
	revoked map[string]bool // serials
	used    map[string]bool
	fail    error
	block   bool // PutCert waits for its context
}

func newMemory() *memory {
	return &memory{certs: map[string]mesh.CertRecord{}, revoked: map[string]bool{}, used: map[string]bool{}}
}

func (m *memory) PutCert(ctx context.Context, r mesh.CertRecord) error {
	if m.block {
		<-ctx.Done()
		return fmt.Errorf("memory: put: %w", mesh.ErrUnavailable)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if _, ok := m.certs[r.Serial]; ok {
		return fmt.Errorf("memory: put: %w", mesh.ErrExists)
	}
	m.certs[r.Serial] = r
	return nil
}

func (m *memory) GetCert(_ context.Context, serial string) (mesh.CertRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.certs[serial]
	if !ok {
		return r, fmt.Errorf("memory: get: %w", mesh.ErrNotFound)
	}
	return r, nil
}

func (m *memory) IsRevoked(_ context.Context, _, serial string, _ time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revoked[serial], nil
}

func (m *memory) UseOnce(_ context.Context, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.used[key]
	m.used[key] = true
	return first, nil
}

// fixture is a founded mesh with one server's authority.
type fixture struct {
	mesh    mesh.ID
	root    *ca.Root
	inter   *x509.Certificate
	key     crypto.Signer
	records *memory
	*ca.Authority
}

func found(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{mesh: mesh.NewID(), records: newMemory()}
	var err error
	if f.root, err = ca.NewRoot(f.mesh, time.Now()); err != nil {
		t.Fatal(err)
	}
	f.key = newKey(t)
	server := mesh.NewServerID()
	if f.inter, err = f.root.Intermediate(server, f.key.Public(), time.Now()); err != nil {
		t.Fatal(err)
	}
	f.Authority, err = ca.New(ca.Config{
		Mesh: f.mesh, Server: server, Root: f.root.Cert(), Intermediate: f.inter, Key: f.key, Records: f.records,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ca.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (f *fixture) identity(role mesh.Role) mesh.Identity {
	id := mesh.Identity{Mesh: f.mesh, Role: role}
	switch role {
	case mesh.RoleMgmt:
		id.ID = string(mesh.NewServerID())
	case mesh.RoleCore:
		id.ID = string(mesh.NewCoreID())
	case mesh.RoleEntry:
		id.ID = string(mesh.NewEntryID())
	case mesh.RoleAdmin:
		id.ID = string(mesh.NewAdminID())
	}
	return id
}

func csrOf(t testing.TB, key crypto.Signer, tmpl *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (f *fixture) issue(t testing.TB, id mesh.Identity, key crypto.Signer) ([][]byte, mesh.CertRecord) {
	t.Helper()
	chain, rec, err := f.Issue(t.Context(), ca.Request{
		Identity: id, CSR: csrOf(t, key, &x509.CertificateRequest{}), Life: 24 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	return chain, rec
}

func parse(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
