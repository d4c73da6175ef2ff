package certs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whoever replaces two files does so one after the other, and sometimes badly:
// what is shown is always a pair that fits.
func TestFilesOfTheSubscriptionServiceAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	f := Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	w := newWorld(t, func(s *Service) { s.Files = f })
	w.run()
	if w.Subscription() != nil {
		t.Error("a certificate before there are files")
	}
	pair := func() (chain [][]byte, key []byte) {
		k := newKey(t)
		return w.ca.certify(t, requestFor(t, k, "sub.example.net"), time.Hour), keyPEM(t, k)
	}
	shows := func(chain [][]byte) func() bool {
		return func() bool {
			c := w.Subscription()
			return c != nil && string(c.Certificate[0]) == string(chain[0]) && len(c.Certificate) == 2
		}
	}
	first, firstKey := pair()
	write(t, f.Cert, toPEM(first...))
	write(t, f.Key, firstKey)
	eventually(t, "the first is shown", shows(first))

	next, nextKey := pair()
	for _, damage := range [][]byte{toPEM(next...), {}, []byte("rubbish"), make([]byte, maxFile+1)} {
		write(t, f.Cert, damage)
		eventually(t, "the fault is noticed", func() bool { return w.files.Load().problem != "" })
		if !shows(first)() {
			t.Error("what does not fit is shown")
		}
		write(t, f.Cert, toPEM(first...))
		eventually(t, "the fault is over", func() bool { return w.files.Load().problem == "" })
	}
	if err := os.Remove(f.Key); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing file is noticed", func() bool { return w.files.Load().problem != "" })
	if !shows(first)() {
		t.Error("the certificate went with its file")
	}
	write(t, f.Key, nextKey)
	write(t, f.Cert, toPEM(next...))
	eventually(t, "the next is shown", shows(next))
	if err := os.Chmod(f.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the open key is noticed", func() bool { return strings.Contains(w.files.Load().problem, "read by everybody") })
	if !shows(next)() {
		t.Error("the certificate went with its permissions")
	}
}

// What one server has ordered all show; its key is sealed in the store.
func TestTheOrderedCertificateIsSharedByAllServers(t *testing.T) {
	w := newWorld(t, nil)
	w.run()
	w.set.Store(&mesh.SubscriptionSettings{Name: "sub.example.net", Certificate: mesh.SubscriptionACME})
	if w.Subscription() != nil {
		t.Error("a certificate before one was ordered")
	}
	put := func(seal string) [][]byte {
		key := newKey(t)
		csr := requestFor(t, key, "sub.example.net")
		chain := w.ca.certify(t, csr, time.Hour)
		sealed, err := w.st.Seal(seal, mesh.Secret(keyPEM(t, key)))
		if err != nil {
			t.Fatal(err)
		}
		c := mesh.SubscriptionCert{Name: "sub.example.net", Key: sealed, Order: mesh.CertOrder{Request: csr, Chain: chain}}
		w.change(func(tx *store.Tx) error {
			if _, err := store.Get(tx, w.st.SubCert, store.SubCertKey); err == nil {
				return store.Update(tx, w.st.SubCert, store.SubCertKey, func(x *mesh.SubscriptionCert) error { *x = c; return nil })
			}
			return store.Create(tx, w.st.SubCert, store.SubCertKey, c)
		})
		return chain
	}
	shown := func(chain [][]byte) bool {
		c := w.Subscription()
		return c != nil && string(c.Certificate[0]) == string(chain[0])
	}
	first := put(store.SubCertKeyPlace())
	eventually(t, "the first is shown", func() bool { return shown(first) })
	put(store.BackupSignPlace()) // cannot be opened
	eventually(t, "the fault is noticed", func() bool { return w.shared.Load().problem != "" })
	if !shown(first) {
		t.Error("the first is no longer shown")
	}
	third := put(store.SubCertKeyPlace())
	eventually(t, "the third is shown", func() bool { return shown(third) })
	w.set.Store(&mesh.SubscriptionSettings{Name: "sub.example.net"})
	if w.Subscription() != nil {
		t.Error("what was ordered is shown although files are wanted")
	}
}
