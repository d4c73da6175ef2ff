package chores

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/acme"
	"github.com/meshctl/meshctl/pkg/acme/acmetest"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// orders is a server's side that is told what to order.
type orders struct {
	mu    sync.Mutex // guards what follows
	order *CertsOrder
	ended []CertOutcome
}

func (o *orders) Lead(ctx context.Context) error { <-ctx.Done(); return nil }

func (o *orders) Order() *CertsOrder {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.order
}

func (o *orders) Ended(out CertOutcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, out)
}

func (o *orders) want(requests ...CertRequest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := *o.order
	next.Requests = requests
	o.order = &next
}

// outcome waits for how an attempt ended.
func (o *orders) outcome(t *testing.T, id string, attempt uint64) CertOutcome {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		o.mu.Lock()
		i := slices.IndexFunc(o.ended, func(out CertOutcome) bool { return out.ID == id && out.Attempt == attempt })
		var out CertOutcome
		if i >= 0 {
			out = o.ended[i]
		}
		o.mu.Unlock()
		if i >= 0 {
			return out
		}
	}
	t.Fatalf("no outcome of %s", id)
	return CertOutcome{}
}

func accountKey(t *testing.T) mesh.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func certRequest(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// A real child registers an account and orders wildcards from a real authority,
// whose challenge it answers at a real name server.
func TestTheChildOrdersCertificates(t *testing.T) {
	d := acmetest.NewDNS(t, []string{"example.net."})
	a := acmetest.NewAuthority(t, d.Addr, "")
	o := &orders{order: &CertsOrder{
		Directory: a.URL, Roots: a.Roots, AccountKey: accountKey(t), Credential: acmetest.Secret,
		DNS: mesh.DNSProvider{Kind: mesh.DNSUpdate, Server: d.Addr, KeyName: acmetest.Key, Algorithm: acmetest.Algorithm, Resolvers: []string{d.Addr}},
	}}
	o.want(CertRequest{ID: "account", Attempt: 1})
	s := newSite(t, "", func(f *Foreman) { f.Certs = o })
	account := o.outcome(t, "account", 1)
	if account.Failure != "" || account.Account == "" || !slices.Equal(account.Identities, []string{acmetest.Identity}) {
		t.Fatalf("account %+v", account)
	}
	const name = "*.a.example.net"
	first := CertRequest{ID: "core-a", Attempt: 2, Name: name, Request: certRequest(t, name)}
	o.want(first)
	if out := o.outcome(t, "core-a", 2); out.Failure != acme.CAARecord || !strings.Contains(out.Detail, "CAA") || a.Orders() != 0 {
		t.Errorf("without a CAA record: %+v, %d orders", out, a.Orders())
	}
	d.Put(t, acmetest.CAA("example.net", acmetest.Identity, account.Account))
	first.Attempt = 3
	second := CertRequest{ID: "core-b", Attempt: 4, Name: name, Request: certRequest(t, name)}
	o.want(first, second)
	for _, r := range []CertRequest{first, second} {
		out := o.outcome(t, r.ID, r.Attempt)
		if out.Failure != "" || len(out.Chain) < 2 {
			t.Fatalf("%s: %+v", r.ID, out)
		}
		leaf, err := x509.ParseCertificate(out.Chain[0])
		if err != nil || leaf.VerifyHostname("x.a.example.net") != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	if a.Orders() != 2 || len(d.Texts("_acme-challenge.a.example.net")) != 0 {
		t.Errorf("%d orders, left %v", a.Orders(), d.Texts("_acme-challenge.a.example.net"))
	}
	for _, secret := range []string{acmetest.Secret, strings.Split(o.Order().AccountKey.Reveal(), "\n")[1]} {
		if strings.Contains(s.logs.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
	s.depose()
	<-s.gone
	if s.desk.jobs.certs != nil {
		t.Error("the child still has its orders")
	}
}

const stalledName = "*.a.example.net"

// inTheMidst is a site whose child has made one order, the first of core-a, which
// does not end while the name server behaves as it does.
func inTheMidst(t *testing.T) (*site, *acmetest.Authority, *orders, *acmetest.DNS) {
	t.Helper()
	d := acmetest.NewDNS(t, []string{"example.net."})
	a := acmetest.NewAuthority(t, d.Addr, "")
	o := &orders{order: &CertsOrder{
		Directory: a.URL, Roots: a.Roots, AccountKey: accountKey(t), Credential: acmetest.Secret, AllowMissingCAA: true,
		DNS: mesh.DNSProvider{Kind: mesh.DNSUpdate, Server: d.Addr, KeyName: acmetest.Key, Algorithm: acmetest.Algorithm, Resolvers: []string{d.Addr}},
	}}
	d.Misbehave(0, true, false) // the record never shows
	o.want(CertRequest{ID: "core-a", Attempt: 1, Name: stalledName, Request: certRequest(t, stalledName)})
	s := newSite(t, "", func(f *Foreman) { f.Certs = o })
	until(t, "the order is made", func() bool { return a.Orders() == 1 })
	return s, a, o, d
}

// What is taken away while it is under way ends, and leaves no record.
func TestAnOrderThatIsTakenAwayEnds(t *testing.T) {
	s, _, o, d := inTheMidst(t)
	pid := s.Status().PID
	d.Misbehave(0, false, false)
	other := CertRequest{ID: "core-b", Attempt: 2, Name: stalledName, Request: certRequest(t, stalledName)}
	o.want(other)
	s.Wake()
	if out := o.outcome(t, "core-b", 2); out.Failure != "" {
		t.Errorf("the next order: %+v", out)
	}
	if s.Status().PID != pid || s.Status().Restarts != 0 {
		t.Error("the child did not do as it was told, and was killed")
	}
	if len(d.Texts("_acme-challenge.a.example.net")) != 0 {
		t.Error("a record is left")
	}
}

// A child that is killed in the midst of an order is replaced by one that makes it.
func TestAnOrderOutlivesTheChild(t *testing.T) {
	s, a, o, d := inTheMidst(t)
	s.kill(t)
	d.Misbehave(0, false, false)
	if out := o.outcome(t, "core-a", 1); out.Failure != "" || len(out.Chain) == 0 {
		t.Errorf("after the child was killed: %+v", out)
	}
	if s.Status().Restarts == 0 || a.Orders() != 2 {
		t.Errorf("%d restarts, %d orders", s.Status().Restarts, a.Orders())
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	good := func() *controlpb.CertsOrder {
		return (&CertsOrder{
			Directory: "https://ca.example/dir", AccountKey: accountKey(t), Credential: acmetest.Secret,
			DNS: mesh.DNSProvider{Kind: mesh.DNSUpdate, Server: "127.0.0.1:1", KeyName: "k", Algorithm: acmetest.Algorithm, Resolvers: []string{"127.0.0.1:1"}},
		}).proto()
	}
	if c, err := newClient(good()); err != nil || c == nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*controlpb.CertsOrder){
		"no key": func(o *controlpb.CertsOrder) { o.AccountKey = "" },
		"a key of no form": func(o *controlpb.CertsOrder) {
			o.AccountKey = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
		},
		"no provider": func(o *controlpb.CertsOrder) { o.Dns.Kind = "later" },
		"no provider set": func(o *controlpb.CertsOrder) {
			o.Dns = nil
			o.Dns = &controlpb.CertsDNS{Resolvers: []string{"127.0.0.1:1"}}
		},
	} {
		o := good()
		change(o)
		_, err := newClient(o)
		if err == nil || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the child says is another's words, and not always true.
func TestWhatIsTakenFromAnOutcome(t *testing.T) {
	o := (&CertsOrder{AccountKey: "-----BEGIN KEY-----\nkey5ecret\n-----END KEY-----\n", ExternalKey: "ext5ecret", Credential: "cred5ecret"}).proto()
	out := certOutcomeOf(&controlpb.CertOutcome{Failure: "later", Detail: "cred5ecret and ext5ecret and key5ecret\x1b[31m" + strings.Repeat("x", 1000)}, o)
	if out.Failure != acme.Other || strings.Contains(out.Detail, "5ecret") || strings.Contains(out.Detail, "\x1b") || len(out.Detail) > 600 {
		t.Errorf("taken %+v", out)
	}
}
