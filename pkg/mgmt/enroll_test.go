package mgmt

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestEachRoleBecomesWhatItsTokenSays(t *testing.T) {
	w := getWorld(t)
	for _, role := range []mesh.Role{mesh.RoleCore, mesh.RoleEntry, mesh.RoleAdmin} {
		name := unique(string(role))
		tok := w.token(t, role, func(r *admin.TokenCreateRequest) { r.Name = name })
		e, err := join(t, tok, role, newFolder(t))
		if err != nil {
			t.Fatal(err)
		}
		if e.Node.Identity().Role != role || e.Name != name || len(e.MgmtAddresses) == 0 {
			t.Errorf("%s became %+v", role, e)
		}
		used := call(t, admin.TokenGet, w.local(t), admin.Ref{Ref: string(tok.ID)})
		if used.State != mesh.TokenUsed || used.Used.Node != e.Node.Identity().Node() || used.Used.From != "127.0.0.1" {
			t.Errorf("the token of %s: %+v", role, used.Used)
		}
		certs := call(t, admin.CertList, w.local(t), admin.CertListRequest{Node: e.Node.Identity().Node()})
		if len(certs.Items) != 1 || certs.Items[0].Token != tok.ID || certs.Items[0].Serial != e.Node.Leaf().SerialNumber.String() {
			t.Errorf("on record for %s: %+v", role, certs.Items)
		}
		audit := call(t, admin.AuditList, w.local(t), admin.AuditListRequest{Actor: "node:" + e.Node.Identity().Node()})
		if len(audit.Items) != 1 || audit.Items[0].Action != "node.enroll" || len(audit.Items[0].Changes) != 2 {
			t.Errorf("audit of %s: %+v", role, audit.Items)
		}
	}
}

// C-01: a token makes one node, however many present it in the same instant.
func TestOneTokenMakesOneNode(t *testing.T) {
	w := getWorld(t)
	tok := w.token(t, mesh.RoleEntry)
	before := len(call(t, admin.EntryList, w.local(t), admin.Page{}).Items)
	const racers = 100
	errs := make([]error, racers)
	folders := make([]*identity.Folder, racers)
	for i := range folders {
		folders[i] = newFolder(t)
	}
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() { _, errs[i] = join(t, tok, mesh.RoleEntry, folders[i]) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !strings.Contains(err.Error(), "already used"):
			t.Errorf("a loser was told: %v", err)
		}
	}
	after := len(call(t, admin.EntryList, w.local(t), admin.Page{}).Items)
	if won != 1 || after-before != 1 {
		t.Errorf("%d were enrolled and %d entries made, want one of each", won, after-before)
	}
}

// A reply that was lost is made good by the same key, which keeps its identity;
// any other key is told that the token is used.
func TestTheSameKeyMayFetchItsCertificateAgain(t *testing.T) {
	w := getWorld(t)
	tok := w.token(t, mesh.RoleCore)
	f := newFolder(t)
	p, err := f.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	first, err := w.enroll(t, tok, p.CSR())
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.enroll(t, tok, p.CSR())
	if err != nil || again.GetNode() != first.GetNode() || again.GetName() != first.GetName() {
		t.Fatalf("the same key again: %s %q, %v; want %s %q", again.GetNode(), again.GetName(), err, first.GetNode(), first.GetName())
	}
	if _, err := join(t, tok, mesh.RoleCore, newFolder(t)); mesh.Kind(err) != mesh.ErrDenied || !strings.Contains(err.Error(), "already used by "+first.GetNode()) {
		t.Errorf("another key: %v", err)
	}
	call(t, admin.CoreRevoke, w.local(t), admin.RevokeRequest{Ref: strings.TrimPrefix(first.GetNode(), "core/")})
	if _, err := w.enroll(t, tok, p.CSR()); mesh.Kind(err) != mesh.ErrDenied || !strings.Contains(err.Error(), "is revoked") {
		t.Errorf("the same key after its core was revoked: %v", err)
	}
}

// A node that fetches its certificate over and over fills no store: each stays on
// record for long.
func TestCertificatesAreNotForTheAskingAlone(t *testing.T) {
	w := getWorld(t)
	asked := func(n *identity.Node, ask func() error) {
		t.Helper()
		for range 3 * max(againBurst, renewalBurst) {
			if err := ask(); err != nil && mesh.Kind(err) != mesh.ErrUnavailable {
				t.Fatal(err)
			}
		}
		made := call(t, admin.CertList, w.local(t), admin.CertListRequest{Node: n.Identity().Node()})
		if got := len(made.Items); got < 3 || got > max(againBurst, renewalBurst)+2 {
			t.Errorf("%s got %d certificates", n.Identity().Node(), got)
		}
	}
	tok := w.token(t, mesh.RoleEntry)
	f := newFolder(t)
	p, err := f.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	csr := p.CSR()
	joined, err := join(t, tok, mesh.RoleEntry, f)
	if err != nil {
		t.Fatal(err)
	}
	cc := controlpb.NewEnrollmentClient(stranger(t, w.addr.Mesh, tok.RootHash))
	asked(joined.Node, func() error {
		_, err := cc.Enroll(t.Context(), &controlpb.EnrollRequest{TokenId: string(tok.ID), Secret: tok.Secret.Reveal(), Csr: csr})
		return rpcstatus.From(err)
	})
	n := w.node(t, mesh.RoleCore)
	known := as(t, w.addr.Mesh, n)
	asked(n, func() error { _, err := renew(t, known, n.Identity()); return err })
}

// enroll sends one request as it stands.
func (r *running) enroll(t *testing.T, tok mesh.JoinToken, csr []byte) (*controlpb.EnrollResponse, error) {
	t.Helper()
	resp, err := controlpb.NewEnrollmentClient(stranger(t, r.addr.Mesh, tok.RootHash)).Enroll(t.Context(),
		&controlpb.EnrollRequest{TokenId: string(tok.ID), Secret: tok.Secret.Reveal(), Csr: csr, Version: "test"})
	return resp, rpcstatus.From(err)
}

func TestATokenThatDoesNotServeIsRefused(t *testing.T) {
	w := getWorld(t)
	good := w.token(t, mesh.RoleEntry)
	revoked := w.token(t, mesh.RoleEntry)
	call(t, admin.TokenRevoke, w.local(t), admin.Ref{Ref: string(revoked.ID)})
	expired := w.token(t, mesh.RoleEntry, func(r *admin.TokenCreateRequest) { r.Life = mesh.Duration(time.Second) })
	eventually(t, "the token expires", func() bool {
		return call(t, admin.TokenGet, w.local(t), admin.Ref{Ref: string(expired.ID)}).State == mesh.TokenExpired
	})
	with := func(f func(*mesh.JoinToken)) mesh.JoinToken {
		tok := good
		f(&tok)
		return tok
	}
	wrong := map[string]mesh.JoinToken{
		"an unknown id":                  with(func(j *mesh.JoinToken) { j.ID = mesh.NewTokenID() }),
		"a hostile id":                   with(func(j *mesh.JoinToken) { j.ID = "../members/x" }),
		"a wrong secret":                 with(func(j *mesh.JoinToken) { j.Secret = mesh.NewSecret(32) }),
		"no secret":                      with(func(j *mesh.JoinToken) { j.Secret = "" }),
		"an expired token, wrong secret": {ID: expired.ID, RootHash: good.RootHash, Secret: mesh.NewSecret(32)},
		"a revoked token, wrong secret":  {ID: revoked.ID, RootHash: good.RootHash, Secret: mesh.NewSecret(32)},
	}
	csr := request(t, new(x509.CertificateRequest), identitytest.Key(t))
	var said string
	for name, tok := range wrong {
		_, err := w.enroll(t, tok, csr)
		if mesh.Kind(err) != mesh.ErrDenied {
			t.Errorf("%s: %v, want denied", name, err)
			continue
		}
		if text := err.Error() + mesh.Hint(err); said == "" {
			said = text
		} else if text != said {
			t.Errorf("%s is told %q, others %q", name, text, said)
		}
	}
	for part, tok := range map[string]mesh.JoinToken{"was revoked": revoked, "expired at": expired} {
		if _, err := w.enroll(t, tok, csr); mesh.Kind(err) != mesh.ErrDenied || !strings.Contains(err.Error(), part) {
			t.Errorf("with the right secret: %v, want %q", err, part)
		}
	}
	// A pin that does not match: the secret is not sent.
	foreign := with(func(j *mesh.JoinToken) { j.RootHash[0] ^= 1 })
	if _, err := join(t, foreign, mesh.RoleEntry, newFolder(t)); mesh.Kind(err) != mesh.ErrDenied {
		t.Errorf("a pin of another mesh: %v", err)
	}
	if _, err := join(t, good, mesh.RoleCore, newFolder(t)); err == nil || !strings.Contains(err.Error(), "is for the role entry") {
		t.Errorf("as another role: %v", err)
	}
	if got := call(t, admin.TokenGet, w.local(t), admin.Ref{Ref: string(good.ID)}); got.State != mesh.TokenUnused {
		t.Errorf("the good token is %s after all that", got.State)
	}
	if n := w.guesses(t, "a join token"); n != 1 {
		t.Errorf("%d events tell of the guesses, want 1 per address and ten minutes", n)
	}
}

// guesses counts the events of guesses at something.
func (r *running) guesses(t *testing.T, at string) (n int) {
	t.Helper()
	for _, e := range call(t, admin.EventList, r.local(t), admin.EventListRequest{Type: mesh.EventTokenGuess}).Items {
		if strings.HasPrefix(e.Cause, at) {
			n++
		}
	}
	return n
}

// C-04: whatever a certificate request asks for, the certificate says what the
// token says, or there is none and the token stays good.
func TestARequestCannotAskForAnotherName(t *testing.T) {
	w := getWorld(t)
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example.org", i)
	}
	uri, err := url.Parse("spiffe://mesh-aaaaaaaaaaaaaaaa/mgmt/mgmt-aaaaaaaaaaaaaaaa")
	if err != nil {
		t.Fatal(err)
	}
	caTrue := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}
	for name, tmpl := range map[string]x509.CertificateRequest{
		"another role's identity": {URIs: []*url.URL{uri}},
		"an address":              {IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		"a wildcard":              {DNSNames: []string{"*.example.net"}},
		"to be a CA":              {ExtraExtensions: []pkix.Extension{caTrue}},
		"many names":              {DNSNames: names},
		"a common name":           {Subject: pkix.Name{CommonName: "root"}},
	} {
		t.Run(name, func(t *testing.T) {
			tok := w.token(t, mesh.RoleCore)
			resp, err := w.enroll(t, tok, request(t, &tmpl, identitytest.Key(t)))
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(resp.GetChain()[0])
			if err != nil {
				t.Fatal(err)
			}
			if len(leaf.URIs) != 1 || !strings.HasSuffix(leaf.URIs[0].String(), "/"+resp.GetNode()) || leaf.IsCA ||
				len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 || leaf.Subject.CommonName != "" {
				t.Errorf("certificate: %v %v %v CA=%v CN=%q", leaf.URIs, leaf.DNSNames, leaf.IPAddresses, leaf.IsCA, leaf.Subject.CommonName)
			}
		})
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skipf("this runtime makes no weak keys: %v", err)
	}
	tok := w.token(t, mesh.RoleEntry)
	for name, csr := range map[string][]byte{
		"RSA 1024":   request(t, &x509.CertificateRequest{}, weak),
		"no request": nil,
		"garbage":    []byte("-----BEGIN"),
		"too long":   make([]byte, 60<<10),
		"cut short":  request(t, new(x509.CertificateRequest), identitytest.Key(t))[:40],
	} {
		if _, err := w.enroll(t, tok, csr); mesh.Kind(err) != mesh.ErrInvalid {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	if _, err := w.enroll(t, tok, make([]byte, 80<<10)); err == nil {
		t.Error("80 KiB before authentication: accepted")
	}
	if got := call(t, admin.TokenGet, w.local(t), admin.Ref{Ref: string(tok.ID)}); got.State != mesh.TokenUnused {
		t.Errorf("the token is %s after refused requests", got.State)
	}
}

func request(t *testing.T, tmpl *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestWrongTokensAreCountedByAddress(t *testing.T) {
	s := newSuspicion(lazyStore(t), 3, (new(logBuffer)).logger(), time.Now)
	a, b := addr("192.0.2.1"), addr("192.0.2.2")
	s.told.Allow(telling{a, mesh.EventTokenGuess}, time.Now()) // its event was written already
	for range 3 {
		if s.tooMany(a) {
			t.Fatal("too many too early")
		}
		s.guessed(t.Context(), a)
	}
	if !s.tooMany(a) || s.tooMany(b) {
		t.Error("after 3 wrong tokens: want the address refused, and no other")
	}
	s.now = func() time.Time { return time.Now().Add(time.Minute) }
	if s.tooMany(a) {
		t.Error("a minute later it is still refused")
	}
}

func TestALabelThatIsTakenDoesNotStopANode(t *testing.T) {
	w := getWorld(t)
	name := unique("taken")
	one := w.token(t, mesh.RoleEntry, func(r *admin.TokenCreateRequest) { r.Name = name })
	two := w.token(t, mesh.RoleEntry, func(r *admin.TokenCreateRequest) { r.Name = name })
	first, err := join(t, one, mesh.RoleEntry, newFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := join(t, two, mesh.RoleEntry, newFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	if first.Name != name || !strings.HasPrefix(second.Name, name+" ") {
		t.Errorf("labels %q and %q", first.Name, second.Name)
	}
}
