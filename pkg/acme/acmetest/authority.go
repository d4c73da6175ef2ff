package acmetest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// Identity is the name by which the authority finds itself in CAA records.
const Identity = "authority.example"

// Authority is an ACME server in this process: Pebble.
type Authority struct {
	URL   string // of the directory
	Roots string // PEM, of the server's own certificate
	CA    *x509.CertPool

	orders atomic.Int32
	refuse atomic.Pointer[http.HandlerFunc]
}

// NewAuthority serves until the test ends. It asks that DNS server. external, if
// not "", is the MAC key (base64url) of the one external account "kid", without
// which nobody may register.
func NewAuthority(t testing.TB, resolver, external string) *Authority {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	t.Setenv("PEBBLE_AUTHZREUSE", "0")
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "default", ValidityPeriod: 90 * 24 * 3600}})
	if external != "" {
		if err := store.AddExternalAccountKeyByID("kid", external); err != nil {
			t.Fatal(err)
		}
	}
	front := wfe.New(quiet, store, va.New(quiet, 1, 1, false, resolver, store), issuer, []string{Identity}, false, external != "", 0, 0)
	a := &Authority{CA: x509.NewCertPool()}
	handler := front.Handler()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/order-plz" {
			a.orders.Add(1)
		}
		if f := a.refuse.Load(); f != nil && r.Method == http.MethodPost {
			(*f)(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	a.URL = srv.URL + wfe.DirectoryPath
	a.Roots = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	a.CA.AddCert(issuer.GetRootCert(0).Cert)
	return a
}

// Orders is how many there were.
func (a *Authority) Orders() int { return int(a.orders.Load()) }

// Refuse answers every request of an account with a problem (RFC 8555, 6.7); an
// empty kind ends that.
func (a *Authority) Refuse(kind, detail, retryAfter string) {
	if kind == "" {
		a.refuse.Store(nil)
		return
	}
	f := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Replay-Nonce", "bm9uY2U")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"type":"urn:ietf:params:acme:error:`+kind+`","detail":"`+detail+`"}`)
	})
	a.refuse.Store(&f)
}

// Endless is the function of goroutines that the authority never ends, for leak
// checks.
const Endless = "github.com/letsencrypt/pebble/v2/va.VAImpl.processTasks"
