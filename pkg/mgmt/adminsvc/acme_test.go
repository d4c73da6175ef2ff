package adminsvc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func acmeRequest() admin.ACMESetRequest {
	return admin.ACMESetRequest{
		Directory: new("https://ca.example/dir"), Contact: new("ops@example.net"), Agree: true,
		Provider: new(mesh.DNSUpdate), Server: new("192.0.2.1:53"), KeyName: new("update-key"), Credential: new("Y2FuYXJ5LXNlY3JldA=="),
	}
}

func TestACMESettingsHoldTheirSecretsSealed(t *testing.T) {
	r := newRig(t)
	if v := must(r.acmeGet(r.as(mesh.AdminAuditor), admin.None{}))(t); v.Settings != nil || len(v.Entries) != 1 {
		t.Errorf("before any change: %+v", v)
	}
	_, err := r.acmeOrder(r.ctx(), admin.ACMEOrderRequest{})
	refused(t, err, mesh.ErrConflict, "acme set")
	v := must(r.acmeSet(r.ctx(), acmeRequest()))(t)
	if v.Settings.Algorithm != "hmac-sha256" || v.Settings.Agreed.IsZero() || v.Settings.Contact != "ops@example.net" {
		t.Errorf("shown %+v", v.Settings)
	}
	a := must(r.Store.ACME.Get(t.Context(), store.ACMEKey))(t).Value
	key, err := r.Store.Unseal(store.ACMEAccountPlace(), a.AccountKey)
	if err != nil || !strings.Contains(key.Reveal(), "PRIVATE KEY") {
		t.Errorf("account key: %v", err)
	}
	text, err := json.Marshal([]any{v, r.audits(), a})
	if err != nil || strings.Contains(string(text), "Y2FuYXJ5") || strings.Contains(string(text), "PRIVATE KEY") {
		t.Errorf("a secret shows: %v", err)
	}
	r.write("known", func(tx *store.Tx) error {
		return store.Create(tx, r.Store.ACMEState, store.ACMEStateKey, mesh.ACMEState{Directory: "https://ca.example/dir", Account: "https://ca.example/acct/1"})
	})
	// What is not given stays, and the account with it.
	if v = must(r.acmeSet(r.ctx(), admin.ACMESetRequest{Zone: new("example.net")}))(t); v.State.Account == "" || v.Settings.KeyName != "update-key" {
		t.Errorf("after a small change: %+v", v)
	}
	if now := must(r.Store.ACME.Get(t.Context(), store.ACMEKey))(t).Value; now.AccountKey != a.AccountKey {
		t.Error("a small change replaced the account's key")
	}
	_, err = r.acmeSet(r.ctx(), admin.ACMESetRequest{Directory: new("https://other.example/dir")})
	refused(t, err, mesh.ErrInvalid, "--agree-terms")
	if v = must(r.acmeSet(r.ctx(), admin.ACMESetRequest{Directory: new("https://other.example/dir"), Agree: true}))(t); v.State.Account != "" {
		t.Errorf("another authority with the account of the last: %+v", v.State)
	}
	must(r.acmeRemove(r.ctx(), admin.None{}))(t)
	if v = must(r.acmeGet(r.ctx(), admin.None{}))(t); v.Settings != nil {
		t.Errorf("after removal: %+v", v)
	}
}

func TestACMESettingsThatMakeNoSense(t *testing.T) {
	for says, change := range map[string]func(*admin.ACMESetRequest){
		"https URL":           func(q *admin.ACMESetRequest) { q.Directory = new("http://ca.example/dir") },
		"e-mail":              func(q *admin.ACMESetRequest) { q.Contact = new("a@b,c@d") },
		"--agree-terms":       func(q *admin.ACMESetRequest) { q.Agree = false },
		"--dns-secret-file":   func(q *admin.ACMESetRequest) { q.Credential = nil },
		"printable":           func(q *admin.ACMESetRequest) { q.Credential = new("two words") },
		"host:port":           func(q *admin.ACMESetRequest) { q.Server = new("ns.example.net") },
		"TSIG key":            func(q *admin.ACMESetRequest) { q.KeyName = nil },
		"one of hmac":         func(q *admin.ACMESetRequest) { q.Algorithm = new("hmac-md5") },
		"rfc2136 or cloudfla": func(q *admin.ACMESetRequest) { q.Provider = new(mesh.DNSKind("later")) },
		"both its key id":     func(q *admin.ACMESetRequest) { q.External = new("kid") },
		"resolver":            func(q *admin.ACMESetRequest) { q.Resolvers = &[]string{"9.9.9.9"} },
	} {
		r := newRig(t)
		q := acmeRequest()
		change(&q)
		_, err := r.acmeSet(r.ctx(), q)
		refused(t, err, mesh.ErrInvalid, says)
	}
}

// request has a core ask as node control does, and returns it with its chain.
func (r *rig) request(core mesh.Core, suffix mesh.ServerName) (chain string) {
	r.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	names := []string{"*." + string(suffix)}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		r.t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write("asked", func(tx *store.Tx) error {
		return store.Create(tx, r.Store.CellCerts, core.ID, mesh.CellCert{Core: core.ID, Cell: core.Cell, Suffix: suffix, Order: mesh.CertOrder{Request: csr, Asked: time.Now().UTC()}})
	})
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestRequestsOfCoresAreShownAndTheirCertificatesTaken(t *testing.T) {
	r := newRig(t)
	m := r.member("alice")
	private := r.cell("south", "b.example.net")
	cell := must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "north", Suffix: "a.example.net", Certificate: mesh.CertificatePublic}))(t)
	one, two := r.core("one", m.ID, cell.ID), r.core("two", m.ID, cell.ID)
	first, second := r.request(one, "a.example.net"), r.request(two, "a.example.net")
	l := must(r.cellRequests(r.as(mesh.AdminAuditor), admin.CellRequestsRequest{Ref: "north"}))(t)
	if len(l.Items) != 2 || !l.Items[0].Open || !strings.Contains(l.Items[0].CSR, "CERTIFICATE REQUEST") {
		t.Fatalf("shown %+v", l.Items)
	}
	if l := must(r.cellRequests(r.ctx(), admin.CellRequestsRequest{Ref: "north", Core: "two"}))(t); len(l.Items) != 1 || l.Items[0].Name != "two" {
		t.Errorf("of one core: %+v", l.Items)
	}
	_, err := r.cellRequests(r.ctx(), admin.CellRequestsRequest{Ref: private.Name})
	refused(t, err, mesh.ErrConflict, "its own authority")
	_, err = r.cellCertify(r.ctx(), admin.CellCertifyRequest{Ref: "north"})
	refused(t, err, mesh.ErrInvalid, "0 files")
	_, err = r.cellCertify(r.ctx(), admin.CellCertifyRequest{Ref: "north", Chains: []string{first, "rubbish"}})
	refused(t, err, mesh.ErrInvalid, "file 2")
	if l := must(r.cellRequests(r.ctx(), admin.CellRequestsRequest{Ref: "north"}))(t); !l.Items[0].Open || !l.Items[1].Open {
		t.Error("half of an upload was taken")
	}
	got := must(r.cellCertify(r.ctx(), admin.CellCertifyRequest{Ref: "north", Chains: []string{second, first}}))(t)
	if len(got.Items) != 2 || got.Items[0].Core != two.ID || got.Items[1].Name != "one" || got.Items[0].Warning == "" {
		t.Errorf("taken %+v", got.Items)
	}
	v := must(r.acmeGet(r.ctx(), admin.None{}))(t)
	if len(v.Names) != 2 {
		t.Fatalf("names %+v", v.Names)
	}
	for _, n := range v.Names {
		if n.What == "cell north" && (!n.Public || n.Ordered || len(n.Certs) != 2 || n.Certs[0].By != mesh.OrderUpload) || n.What == "cell south" && n.Public {
			t.Errorf("name %+v", n)
		}
	}
	if a := r.audits()[0]; a.Action != "cell.certify" {
		t.Errorf("audit %+v", a)
	}
	told := 0
	for _, e := range must(r.eventList(r.ctx(), admin.EventListRequest{}))(t).Items {
		if e.Type == mesh.EventCertOrdered && strings.Contains(e.Cause, "admin:test brought") {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d events", told)
	}
}

func TestWhatFailedIsTriedAgainWhenAskedTo(t *testing.T) {
	r := newRig(t)
	cell := must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "north", Suffix: "a.example.net", Certificate: mesh.CertificatePublic}))(t)
	core := r.core("one", r.member("alice").ID, cell.ID)
	r.request(core, "a.example.net")
	must(r.acmeSet(r.ctx(), acmeRequest()))(t)
	later := time.Now().Add(time.Hour).UTC()
	wait := func() {
		r.write("failed", func(tx *store.Tx) error {
			err := store.Update(tx, r.Store.CellCerts, core.ID, func(c *mesh.CellCert) error { c.Order.Next = later; return nil })
			_, absent := store.Get(tx, r.Store.ACMEState, store.ACMEStateKey)
			if absent != nil {
				return errors.Join(err, store.Create(tx, r.Store.ACMEState, store.ACMEStateKey, mesh.ACMEState{Next: later}))
			}
			return errors.Join(err, store.Update(tx, r.Store.ACMEState, store.ACMEStateKey, func(s *mesh.ACMEState) error { s.Next = later; return nil }))
		})
	}
	for _, ref := range []string{"", "north"} {
		wait()
		v := must(r.acmeOrder(r.as(mesh.AdminOperator), admin.ACMEOrderRequest{Ref: ref}))(t)
		if c := must(r.Store.CellCerts.Get(t.Context(), core.ID))(t).Value; !c.Order.Next.IsZero() || !v.State.Next.IsZero() {
			t.Errorf("%q: waits until %v, the account until %v", ref, c.Order.Next, v.State.Next)
		}
	}
	_, err := r.acmeOrder(r.ctx(), admin.ACMEOrderRequest{Ref: "nowhere"})
	refused(t, err, mesh.ErrNotFound, "")
}

func TestStatusSaysWhyCoresHaveNoCertificate(t *testing.T) {
	r := newRig(t)
	m := r.member("alice")
	warned := func() string { return strings.Join(must(r.statusGet(r.ctx(), admin.None{}))(t).Warnings, "\n") }
	cell := must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "north", Suffix: "a.example.net", Certificate: mesh.CertificatePublic}))(t)
	chain := r.request(r.core("one", m.ID, cell.ID), "a.example.net")
	r.core("two", m.ID, r.cell("south", "b.example.net").ID)
	if w := warned(); !strings.Contains(w, "core one has no certificate yet") || !strings.Contains(w, "cell request "+string(cell.ID)) || strings.Contains(w, "core two has") {
		t.Errorf("with a request that nobody took: %s", w)
	}
	must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", CellOptions: admin.CellOptions{Order: new(mesh.OrderACME)}}))(t)
	if w := warned(); !strings.Contains(w, "acme set") {
		t.Errorf("with nothing that says how to order: %s", w)
	}
	must(r.acmeSet(r.ctx(), acmeRequest()))(t)
	r.write("failed", func(tx *store.Tx) error {
		return store.Create(tx, r.Store.ACMEState, store.ACMEStateKey, mesh.ACMEState{Directory: "https://ca.example/dir", Failures: 2, Reason: "nobody answers"})
	})
	if w := warned(); !strings.Contains(w, "after 2 attempts: nobody answers") || strings.Contains(w, "core one has") {
		t.Errorf("with an account that is not made: %s", w)
	}
	must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", CellOptions: admin.CellOptions{Order: new(mesh.OrderUpload)}}))(t)
	must(r.cellCertify(r.ctx(), admin.CellCertifyRequest{Ref: "north", Chains: []string{chain}}))(t)
	if w := warned(); strings.Contains(w, "core one has") {
		t.Errorf("with its certificate: %s", w)
	}
}
