// Package identitytest makes meshes for tests: a root, an intermediate and
// certificates of every role, good and bad, without a management server.
package identitytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Mesh is a CA of one mesh.
type Mesh struct {
	ID           mesh.ID
	Server       mesh.ServerID // whose the intermediate is
	Root         *x509.Certificate
	Intermediate *x509.Certificate

	key  *ecdsa.PrivateKey // of the intermediate
	root *ecdsa.PrivateKey
}

// New makes a mesh.
func New(t testing.TB) *Mesh { return NewWithID(t, mesh.NewID()) }

// NewWithID makes a mesh that goes by id. Two of one id are a mesh and somebody
// who pretends to be it.
func NewWithID(t testing.TB, id mesh.ID) *Mesh {
	t.Helper()
	rootKey := Key(t)
	root := ca(t, "meshctl "+string(id), nil, &rootKey.PublicKey, rootKey, 1)
	key := Key(t)
	server := mesh.NewServerID()
	inter := ca(t, mesh.IssuerName(id, server), root, &key.PublicKey, rootKey, 0)
	return &Mesh{ID: id, Server: server, Root: root, Intermediate: inter, key: key, root: rootKey}
}

func ca(t testing.TB, name string, parent *x509.Certificate, pub *ecdsa.PublicKey, by *ecdsa.PrivateKey, pathLen int) *x509.Certificate {
	t.Helper()
	tmpl := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-365 * 24 * time.Hour),
		NotAfter:              time.Now().Add(365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            pathLen,
		MaxPathLenZero:        pathLen == 0,
	}
	if parent == nil {
		parent = tmpl
	}
	return sign(t, tmpl, parent, pub, by)
}

func sign(t testing.TB, tmpl, parent *x509.Certificate, pub crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, pub, by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func serial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

// Key makes an ECDSA P-256 key.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// RootHash is what a join token carries.
func (m *Mesh) RootHash() [32]byte { return sha256.Sum256(m.Root.Raw) }

// Epoch is the root's word for an epoch of the mesh.
func (m *Mesh) Epoch(t testing.TB, epoch int64) mesh.SignedEpoch {
	t.Helper()
	payload, err := json.Marshal(mesh.Epoch{Mesh: m.ID, Epoch: epoch, At: time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	sig, err := ecdsa.SignASN1(rand.Reader, m.root, mesh.EpochDigest(payload))
	if err != nil {
		t.Fatal(err)
	}
	return mesh.SignedEpoch{Payload: payload, Signature: sig, Signer: m.Root.Raw}
}

// Roots is a pool of the mesh's root.
func (m *Mesh) Roots() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(m.Root)
	return p
}

// Identity makes up an identity of the role.
func (m *Mesh) Identity(role mesh.Role) mesh.Identity {
	id := mesh.Identity{Mesh: m.ID, Role: role}
	switch role {
	case mesh.RoleMgmt:
		id.ID = string(mesh.NewServerID())
	case mesh.RoleEntry:
		id.ID = string(mesh.NewEntryID())
	case mesh.RoleCore:
		id.ID = string(mesh.NewCoreID())
	case mesh.RoleAdmin:
		id.ID = string(mesh.NewAdminID())
	}
	return id
}

// Chain issues a certificate: leaf, intermediate, root in DER.
func (m *Mesh) Chain(t testing.TB, id mesh.Identity, pub crypto.PublicKey, opts ...Option) [][]byte {
	t.Helper()
	tmpl := template(t, id)
	for _, o := range opts {
		o(tmpl)
	}
	leaf := sign(t, tmpl, m.Intermediate, pub, m.key)
	return [][]byte{leaf.Raw, m.Intermediate.Raw, m.Root.Raw}
}

func template(t testing.TB, id mesh.Identity) *x509.Certificate {
	t.Helper()
	uri, err := url.Parse(id.String())
	if err != nil {
		t.Fatal(err)
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if id.Role == mesh.RoleMgmt || id.Role == mesh.RoleCore {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial(),
		NotBefore:    now.Add(-mesh.Backdate),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usage,
		URIs:         []*url.URL{uri},
	}
}

// Node makes a node of a made-up identity of the role.
func (m *Mesh) Node(t testing.TB, role mesh.Role, opts ...Option) *identity.Node {
	t.Helper()
	return m.NodeAs(t, m.Identity(role), opts...)
}

// NodeAs makes a node of that identity. Options may make it expired or young;
// what no node could load (two names, say) is made by Certificate.
func (m *Mesh) NodeAs(t testing.TB, id mesh.Identity, opts ...Option) *identity.Node {
	t.Helper()
	key := Key(t)
	n, err := identity.NewNode(id, m.Chain(t, id, &key.PublicKey, opts...), key)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Certificate makes a certificate for a TLS configuration of the test's own,
// for peers that are not what they should be.
func (m *Mesh) Certificate(t testing.TB, id mesh.Identity, opts ...Option) tls.Certificate {
	t.Helper()
	key := Key(t)
	return tls.Certificate{Certificate: m.Chain(t, id, &key.PublicKey, opts...), PrivateKey: key}
}

// Folder makes a folder that holds id, as if it had enrolled.
func (m *Mesh) Folder(t testing.TB, id mesh.Identity, opts ...Option) (*identity.Folder, *identity.Node) {
	t.Helper()
	f, err := identity.OpenFolder(filepath.Join(t.TempDir(), "identity"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Commit(p, m.Answer(t, id, p.CSR(), opts...))
	if err != nil {
		t.Fatal(err)
	}
	return f, n
}

// Answer issues a chain for the key in a certificate request, as a management
// server does.
func (m *Mesh) Answer(t testing.TB, id mesh.Identity, csr []byte, opts ...Option) [][]byte {
	t.Helper()
	req, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	return m.Chain(t, id, req.PublicKey, opts...)
}

// Revoke signs a revocation. What is zero and needed is filled in: id, times
// and, when neither serial nor time is given, "all issued before now".
func (m *Mesh) Revoke(t testing.TB, r mesh.Revocation) mesh.SignedRevocation {
	t.Helper()
	now := time.Now()
	if r.ID == "" {
		r.ID = rand.Text()
	}
	if r.At.IsZero() {
		r.At = now
	}
	if r.Until.IsZero() {
		r.Until = now.Add(48 * time.Hour)
	}
	if r.Serial == "" && r.IssuedBefore.IsZero() {
		r.IssuedBefore = now
	}
	payload, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := m.key.Sign(rand.Reader, mesh.RevocationDigest(payload), crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return mesh.SignedRevocation{Record: r, Payload: payload, Signature: sig, Signer: m.Intermediate.Raw}
}

// Revocations opens an empty set in memory.
func (m *Mesh) Revocations(t testing.TB) *identity.Revocations {
	t.Helper()
	r, err := identity.OpenRevocations("", m.Roots(), m.ID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
