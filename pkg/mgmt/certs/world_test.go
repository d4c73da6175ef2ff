package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patient = time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// world is a mesh with one public cell and one core, and a public authority.
type world struct {
	t    *testing.T
	st   *store.Store
	cell mesh.Cell
	core mesh.Core
	ca   *authority

	*Service
	set       atomic.Pointer[mesh.SubscriptionSettings]
	mu        sync.Mutex // guards the next line
	delivered map[mesh.CoreID][][]byte
	woken     atomic.Int32
}

func newWorld(t *testing.T, change func(*Service)) *world {
	t.Helper()
	w := &world{t: t, st: storetest.New(t), ca: newAuthority(t), delivered: map[mesh.CoreID][][]byte{}}
	w.cell = mesh.Cell{ID: mesh.NewCellID(), Name: "north", Suffix: "a.example.net", State: mesh.CellActive, Certificate: mesh.CertificatePublic}
	w.core = mesh.Core{ID: mesh.NewCoreID(), Name: "one", Cell: w.cell.ID}
	w.change(func(tx *store.Tx) error {
		if err := store.Create(tx, w.st.Config, store.ConfigKey, mesh.DefaultConfig()); err != nil {
			return err
		}
		if err := store.Create(tx, w.st.Cells, w.cell.ID, w.cell); err != nil {
			return err
		}
		return store.Create(tx, w.st.Cores, w.core.ID, w.core)
	})
	w.set.Store(&mesh.SubscriptionSettings{Name: "sub.example.net"})
	w.Service = &Service{
		Store: w.st, Server: mesh.NewServerID(), Settings: func() mesh.SubscriptionSettings { return *w.set.Load() },
		Deliver: func(core mesh.CoreID, chain [][]byte) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.delivered[core] = chain
		},
		Wake: func() { w.woken.Add(1) }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Poll: 10 * time.Millisecond,
	}
	if change != nil {
		change(w.Service)
	}
	return w
}

func (w *world) run() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- w.Service.Run(ctx, func() { close(ready) }) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	select {
	case <-ready:
	case <-time.After(patient):
		w.t.Fatal("not ready")
	}
}

func (w *world) change(f func(*store.Tx) error) {
	w.t.Helper()
	if _, err := w.st.Change(w.t.Context(), store.By{Actor: "local:0"}, "test", f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) given(core mesh.CoreID) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delivered[core]
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func requestFor(t *testing.T, key any, names ...string) []byte {
	t.Helper()
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// authority is a root, an intermediate, and what it signs.
type authority struct {
	root, inter *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	rootKey, interKey := newKey(t), newKey(t)
	tmpl := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		}
	}
	a := &authority{key: interKey}
	a.root = sign(t, tmpl("root"), tmpl("root"), rootKey.Public(), rootKey)
	a.inter = sign(t, tmpl("intermediate"), a.root, interKey.Public(), rootKey)
	return a
}

func sign(t *testing.T, tmpl, parent *x509.Certificate, pub any, by *ecdsa.PrivateKey) *x509.Certificate {
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

// certify answers a request with a chain, leaf first, that ends after life.
func (a *authority) certify(t *testing.T, csr []byte, life time.Duration, names ...string) [][]byte {
	t.Helper()
	r, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		names = r.DNSNames
	}
	leaf := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
	}, a.inter, r.PublicKey, a.key)
	return [][]byte{leaf.Raw, a.inter.Raw}
}

func toPEM(chain ...[]byte) []byte {
	var b bytes.Buffer
	for _, der := range chain {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
