package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net"
	"testing"
	"time"

	"crypto/x509"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (w *world) ask(csr []byte) ([][]byte, error) {
	return w.CellRequested(w.t.Context(), w.core, w.cell, csr)
}

func (w *world) record() mesh.CellCert {
	w.t.Helper()
	c, err := w.st.CellCerts.Get(w.t.Context(), w.core.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Value
}

// made puts a chain where orders and uploads put it.
func (w *world) putChain(chain [][]byte) {
	w.t.Helper()
	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.CellCerts, w.core.ID, func(c *mesh.CellCert) error {
			c.Order = made(c.Order, chain, time.Now().Add(time.Hour), mesh.OrderUpload, time.Now().UTC())
			return nil
		})
	})
}

func TestARequestIsNotedAndAnsweredWhenItsCertificateIsThere(t *testing.T) {
	w := newWorld(t, nil)
	w.run()
	key := newKey(t)
	csr := requestFor(t, key, "*.a.example.net")
	if chain, err := w.ask(csr); err != nil || chain != nil {
		t.Fatalf("got %d certificates, %v; want to wait", len(chain), err)
	}
	if c := w.record(); string(c.Order.Request) != string(csr) || c.Cell != w.cell.ID || c.Suffix != w.cell.Suffix || c.Order.Asked.IsZero() {
		t.Errorf("noted %+v", c)
	}
	if w.woken.Load() == 0 {
		t.Error("nobody was woken")
	}
	again := requestFor(t, key, "*.a.example.net") // another signature by the same key
	if chain, err := w.ask(again); err != nil || chain != nil || string(w.record().Order.Request) != string(csr) {
		t.Errorf("asking again: %v; an order that is under way was disturbed", err)
	}
	if w.given(w.core.ID) != nil {
		t.Error("something was delivered")
	}
	chain := w.ca.certify(t, csr, time.Hour)
	w.putChain(chain)
	eventually(t, "the core is given its certificate", func() bool { return len(w.given(w.core.ID)) == 2 })
	if got, err := w.ask(again); err != nil || len(got) != 2 || string(got[0]) != string(chain[0]) {
		t.Errorf("a core that asks again gets %d, %v", len(got), err)
	}
	next := requestFor(t, newKey(t), "*.a.example.net")
	if got, err := w.ask(next); err != nil || got != nil {
		t.Errorf("the next key gets %d, %v", len(got), err)
	}
	if c := w.record(); string(c.Order.Request) != string(next) || string(c.Order.Chain[0]) != string(chain[0]) {
		t.Error("the certificate held is forgotten, or the next request is")
	}
}

// A certificate that has ended is not given again: the core would show it to
// nobody and ask at once.
func TestAnEndedCertificateIsNoAnswer(t *testing.T) {
	w := newWorld(t, nil)
	key := newKey(t)
	csr := requestFor(t, key, "*.a.example.net")
	if _, err := w.ask(csr); err != nil {
		t.Fatal(err)
	}
	w.putChain(w.ca.certify(t, csr, -time.Minute))
	if got, err := w.ask(csr); err != nil || got != nil {
		t.Errorf("got %d, %v", len(got), err)
	}
}

func TestACoreInAnotherCellBeginsAnew(t *testing.T) {
	w := newWorld(t, nil)
	csr := requestFor(t, newKey(t), "*.a.example.net")
	if _, err := w.ask(csr); err != nil {
		t.Fatal(err)
	}
	w.putChain(w.ca.certify(t, csr, time.Hour))
	w.cell.ID, w.cell.Suffix = mesh.NewCellID(), "b.example.net"
	other := requestFor(t, newKey(t), "*.b.example.net")
	if got, err := w.ask(other); err != nil || got != nil {
		t.Fatalf("got %d, %v", len(got), err)
	}
	if c := w.record(); c.Suffix != "b.example.net" || len(c.Order.Chain) != 0 {
		t.Errorf("record %+v", c)
	}
}

func TestRequestsThatAreNoneOfTheCell(t *testing.T) {
	w := newWorld(t, nil)
	key := newKey(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	more, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"*.a.example.net"}, IPAddresses: []net.IP{{1, 2, 3, 4}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := requestFor(t, key, "*.a.example.net")
	unsigned[len(unsigned)-1] ^= 1
	for name, csr := range map[string][]byte{
		"nothing":                   nil,
		"rubbish":                   []byte("rubbish"),
		"too long":                  make([]byte, maxRequest+1),
		"another name":              requestFor(t, key, "*.b.example.net"),
		"the suffix itself":         requestFor(t, key, "a.example.net"),
		"a second name":             requestFor(t, key, "*.a.example.net", "sub.example.net"),
		"no name":                   requestFor(t, key),
		"an address too":            more,
		"an RSA key":                requestFor(t, other, "*.a.example.net"),
		"a key of P-384":            requestFor(t, p384, "*.a.example.net"),
		"a signature that is wrong": unsigned,
	} {
		if _, err := w.ask(csr); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, _, err := w.st.CellCerts.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%d noted, %v", len(all), err)
	}
}
