package acme

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/meshctl/meshctl/pkg/acme/acmetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestAWildcardIsOrderedAndTheRecordsAreGoneAfterwards(t *testing.T) {
	d := zone(t)
	a := acmetest.NewAuthority(t, d.Addr, "")
	c := newClient(t, d, a)
	reg, err := c.Register(t.Context())
	if err != nil || reg.URI == "" || len(reg.Identities) != 1 || reg.Identities[0] != acmetest.Identity {
		t.Fatalf("registered %+v, %v", reg, err)
	}
	d.Put(t, acmetest.CAA("example.net", acmetest.Identity, reg.URI))
	for _, name := range []string{"*.a.example.net", "sub.example.net"} {
		chain, err := c.Order(t.Context(), name, requestFor(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		leaf, err := x509.ParseCertificate(chain[0])
		if err != nil {
			t.Fatal(err)
		}
		inter := x509.NewCertPool()
		for _, der := range chain[1:] {
			x, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			inter.AddCert(x)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: strings.Replace(name, "*", "x", 1), Roots: a.CA, Intermediates: inter}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left := d.Texts("_acme-challenge." + strings.TrimPrefix(name, "*.")); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	if len(d.Added()) != 2 {
		t.Errorf("records %v", d.Added())
	}
	again := newClient(t, d, a)
	again.Key = c.Key
	if same, err := again.Register(t.Context()); err != nil || same.URI != reg.URI {
		t.Errorf("the same key is account %s, %v; want %s", same.URI, err, reg.URI)
	}
}

// Somebody else's challenge at the same name stays.
func TestOtherRecordsAreLeftAlone(t *testing.T) {
	d := zone(t, `_acme-challenge.a.example.net. 60 IN TXT "of somebody else"`)
	c := newClient(t, d, acmetest.NewAuthority(t, d.Addr, ""))
	c.AllowMissingCAA = true
	if _, err := c.Order(t.Context(), "*.a.example.net", requestFor(t, "*.a.example.net")); err != nil {
		t.Fatal(err)
	}
	if left := d.Texts("_acme-challenge.a.example.net"); len(left) != 1 || left[0] != "of somebody else" {
		t.Errorf("left %v", left)
	}
}

// A challenge may be answered in a zone of its own, so that the key that may
// write there can write nowhere else.
func TestAnAliasOfTheChallengeIsFollowed(t *testing.T) {
	d := acmetest.NewDNS(t, []string{"example.net.", "proofs.example.org."}, "_acme-challenge.a.example.net. 60 IN CNAME a.proofs.example.org.")
	c := newClient(t, d, acmetest.NewAuthority(t, d.Addr, ""))
	c.AllowMissingCAA = true
	if _, err := c.Order(t.Context(), "*.a.example.net", requestFor(t, "*.a.example.net")); err != nil {
		t.Fatal(err)
	}
	if len(d.Added()) != 1 || len(d.Texts("a.proofs.example.org")) != 0 {
		t.Errorf("added %v", d.Added())
	}
}

func TestAnAccountThatExistsElsewhere(t *testing.T) {
	d := zone(t)
	key := base64.RawURLEncoding.EncodeToString([]byte("a mac key of the authority's own"))
	a := acmetest.NewAuthority(t, d.Addr, key)
	c := newClient(t, d, a)
	if _, err := c.Register(t.Context()); FailureOf(err) != Account {
		t.Errorf("without: %v", err)
	}
	c = newClient(t, d, a)
	c.External, c.ExternalKey = "kid", mesh.Secret(key)
	if _, err := c.Register(t.Context()); err != nil {
		t.Errorf("with: %v", err)
	}
	c = newClient(t, d, a)
	c.External, c.ExternalKey = "kid", "not base64!"
	if _, err := c.Register(t.Context()); FailureOf(err) != Settings {
		t.Errorf("with another key: %v", err)
	}
}

// Nothing is ordered from the authority when it would fail or be in vain.
func TestWhatKeepsAnOrderFromBeingMade(t *testing.T) {
	const name = "*.a.example.net"
	for what, tt := range map[string]struct {
		change func(*Client, *acmetest.DNS, Registration)
		want   Failure
		orders int
	}{
		"no CAA record": {func(*Client, *acmetest.DNS, Registration) {}, CAARecord, 0},
		"a CAA record for any account": {func(_ *Client, d *acmetest.DNS, _ Registration) {
			d.Put(t, `example.net. 60 IN CAA 0 issue "`+acmetest.Identity+`"`)
		}, CAARecord, 0},
		"a CAA record of another account": {func(_ *Client, d *acmetest.DNS, _ Registration) {
			d.Put(t, acmetest.CAA("example.net", acmetest.Identity, "https://elsewhere.example/1"))
		}, CAARecord, 0},
		"a nearer CAA record that allows nobody": {func(_ *Client, d *acmetest.DNS, r Registration) {
			d.Put(t, acmetest.CAA("example.net", acmetest.Identity, r.URI))
			d.Put(t, `a.example.net. 60 IN CAA 0 issue ";"`)
		}, CAARecord, 0},
		"resolvers that do not answer": {func(_ *Client, d *acmetest.DNS, _ Registration) { d.Misbehave(0, false, true) }, CAARecord, 0},
		"a request for another name":   {func(c *Client, _ *acmetest.DNS, _ Registration) { c.AllowMissingCAA = true }, Settings, 0},
		"a wrong TSIG secret": {func(c *Client, d *acmetest.DNS, _ Registration) {
			c.AllowMissingCAA = true
			c.Provider.(*updates).secret = "d3JvbmcgZGF0YSBvZiBzb21lIGxlbmd0aA"
		}, Record, 1},
		"an update that is refused": {func(c *Client, d *acmetest.DNS, _ Registration) {
			c.AllowMissingCAA = true
			d.Misbehave(dns.RcodeRefused, false, false)
		}, Record, 1},
		"another zone": {func(c *Client, _ *acmetest.DNS, _ Registration) { c.AllowMissingCAA, c.Zone = true, "example.org" }, Record, 1},
		"a record that does not show": {func(c *Client, d *acmetest.DNS, _ Registration) {
			c.AllowMissingCAA = true
			d.Misbehave(0, true, false)
		}, Unseen, 1},
	} {
		t.Run(what, func(t *testing.T) {
			d := zone(t)
			a := acmetest.NewAuthority(t, d.Addr, "")
			c := newClient(t, d, a)
			reg, err := c.Register(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tt.change(c, d, reg)
			csr := requestFor(t, name)
			if tt.want == Settings {
				csr = requestFor(t, name, "b.example.net")
			}
			if _, err := c.Order(t.Context(), name, csr); FailureOf(err) != tt.want {
				t.Errorf("got %v (%s), want %s", err, FailureOf(err), tt.want)
			}
			if a.Orders() != tt.orders || len(d.Texts("_acme-challenge.a.example.net")) != 0 {
				t.Errorf("%d orders, left %v", a.Orders(), d.Texts("_acme-challenge.a.example.net"))
			}
		})
	}
}

func TestWhatAnAuthorityRefuses(t *testing.T) {
	d := zone(t)
	a := acmetest.NewAuthority(t, d.Addr, "")
	for kind, want := range map[string]Failure{
		"rateLimited": RateLimit, "accountDoesNotExist": Account, "caa": CAARecord, "rejectedIdentifier": Refused, "somethingNew": Refused,
	} {
		c := newClient(t, d, a)
		a.Refuse(kind, "because", "7200")
		_, err := c.Register(t.Context())
		if FailureOf(err) != want || Detail(err) != "because" {
			t.Errorf("%s: %s, %q (%v)", kind, FailureOf(err), Detail(err), err)
		}
		if wait := RetryAfter(err); (kind == "rateLimited") != (wait > time.Hour) {
			t.Errorf("%s: again after %v", kind, wait)
		}
		a.Refuse("", "", "")
	}
}

func TestAnAuthorityThatIsNotThere(t *testing.T) {
	d := zone(t)
	a := acmetest.NewAuthority(t, d.Addr, "")
	for what, tt := range map[string]struct {
		change func(*Client)
		want   Failure
	}{
		"nobody listens":  {func(c *Client) { c.Directory = "https://127.0.0.1:1/dir" }, Connection},
		"nobody to trust": {func(c *Client) { c.Roots = "" }, TLS},
		"no roots":        {func(c *Client) { c.Roots = "rubbish" }, Settings},
	} {
		c := newClient(t, d, a)
		tt.change(c)
		if _, err := c.Register(t.Context()); FailureOf(err) != tt.want {
			t.Errorf("%s: %v (%s)", what, err, FailureOf(err))
		}
	}
}

// Whoever calls an order off does not wait long, and finds no record left.
func TestAnOrderThatIsCalledOff(t *testing.T) {
	d := zone(t)
	c := newClient(t, d, acmetest.NewAuthority(t, d.Addr, ""))
	c.AllowMissingCAA = true
	c.Resolver.wait = time.Minute
	d.Put(t, "example.net. 60 IN NS ns2.example.net.")
	d.Put(t, "ns2.example.net. 60 IN A 127.0.0.1")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	c.Provider = &noticing{c.Provider, cancel}
	go func() { _, err := c.Order(ctx, "*.a.example.net", requestFor(t, "*.a.example.net")); done <- err }()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if left := d.Texts("_acme-challenge.a.example.net"); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// noticing calls f once a record was added.
type noticing struct {
	Provider
	f func()
}

func (n *noticing) Add(ctx context.Context, zone, name, text string) error {
	defer n.f()
	return n.Provider.Add(ctx, zone, name, text)
}
