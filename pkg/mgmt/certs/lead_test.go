package certs

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/acme"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// brisk is a pace for tests.
func brisk(s *Service) {
	s.Pace = Pace{First: 50 * time.Millisecond, Ours: 200 * time.Millisecond, Most: 200 * time.Millisecond, Look: 20 * time.Millisecond, Watch: 50 * time.Millisecond}
}

// lead runs the leader until the test ends, or stop is called.
func (w *world) lead() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Lead(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Lead: %v", err)
		}
	}
	w.t.Cleanup(stop)
	return stop
}

// configure has certificates ordered by ACME, of the cell too.
func (w *world) configure(directory string) {
	w.t.Helper()
	seal := func(place string, secret mesh.Secret) mesh.Sealed {
		sealed, err := w.st.Seal(place, secret)
		if err != nil {
			w.t.Fatal(err)
		}
		return sealed
	}
	w.change(func(tx *store.Tx) error {
		if err := store.Update(tx, w.st.Cells, w.cell.ID, func(c *mesh.Cell) error { c.Order = mesh.OrderACME; return nil }); err != nil {
			return err
		}
		return store.Create(tx, w.st.ACME, store.ACMEKey, mesh.ACMESettings{
			Directory: directory, AccountKey: seal(store.ACMEAccountPlace(), "the account key"),
			DNS: mesh.DNSProvider{Kind: mesh.DNSUpdate, Server: "192.0.2.1:53", KeyName: "k", Algorithm: "hmac-sha256", Credential: seal(store.DNSCredentialPlace(), "the tsig secret")},
		})
	})
}

// ordered waits for a request with that id, other than attempt.
func (w *world) ordered(id string, other uint64) chores.CertRequest {
	w.t.Helper()
	var out chores.CertRequest
	eventually(w.t, id+" is ordered", func() bool {
		o := w.Order()
		if o == nil {
			return false
		}
		if o.AccountKey != "the account key" || o.Credential != "the tsig secret" || o.DNS.Credential != "" {
			w.t.Fatalf("order %+v", o)
		}
		i := slices.IndexFunc(o.Requests, func(r chores.CertRequest) bool { return r.ID == id && r.Attempt != other })
		if i < 0 {
			return false
		}
		out = o.Requests[i]
		return true
	})
	return out
}

func (w *world) registered() {
	w.t.Helper()
	r := w.ordered(idAccount, 0)
	if o := w.Order(); o != nil && len(o.Requests) != 1 || r.Name != "" {
		w.t.Errorf("before the account is known %+v is ordered", o.Requests)
	}
	w.Ended(chores.CertOutcome{ID: r.ID, Attempt: r.Attempt, Account: "https://ca.example/acct/1", Identities: []string{"ca.example"}})
}

func (w *world) events(kind mesh.EventType) []mesh.Event {
	w.t.Helper()
	all, _, err := w.st.Events.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var out []mesh.Event
	for _, e := range all {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

func TestACellsCertificateFromRequestToOrderToCore(t *testing.T) {
	w := newWorld(t, brisk)
	w.run()
	w.lead()
	csr := requestFor(t, newKey(t), "*.a.example.net")
	if _, err := w.ask(csr); err != nil {
		t.Fatal(err)
	}
	if w.Order() != nil {
		t.Error("ordered before there are settings")
	}
	w.configure("https://ca.example/dir")
	w.registered()
	id := string(w.core.ID)
	first := w.ordered(id, 0)
	if first.Name != "*.a.example.net" || string(first.Request) != string(csr) {
		t.Errorf("ordered %+v", first)
	}
	w.Ended(chores.CertOutcome{ID: id, Attempt: first.Attempt, Failure: acme.CAARecord, Detail: "no record"})
	second := w.ordered(id, first.Attempt)
	if c := w.record(); c.Order.Failures != 1 || !strings.Contains(c.Order.Reason, "no record") || c.Order.Next.IsZero() {
		t.Errorf("noted %+v", c.Order)
	}
	if e := w.events(mesh.EventCertOrderFailed); len(e) != 1 || e[0].Object != "core/"+id || !strings.Contains(e[0].Cause, "no record") {
		t.Errorf("events %+v", e)
	}
	w.Ended(chores.CertOutcome{ID: id, Attempt: first.Attempt, Chain: w.ca.certify(t, csr, time.Hour)}) // late, of another attempt
	w.Ended(chores.CertOutcome{ID: id, Attempt: second.Attempt, Chain: w.ca.certify(t, requestFor(t, newKey(t), "*.a.example.net"), time.Hour)})
	third := w.ordered(id, second.Attempt)
	if c := w.record(); c.Order.Failures != 2 || !strings.Contains(c.Order.Reason, "another key") {
		t.Errorf("a certificate for another key is %+v", c.Order)
	}
	chain := w.ca.certify(t, csr, time.Hour)
	w.Ended(chores.CertOutcome{ID: id, Attempt: third.Attempt, Chain: chain})
	eventually(t, "the core has its certificate", func() bool { return len(w.given(w.core.ID)) == 2 })
	eventually(t, "nothing is ordered any more", func() bool { return w.Order() == nil })
	if c := w.record(); c.Order.Failures != 0 || c.Order.Reason != "" || c.Order.By != mesh.OrderACME || c.Order.NotAfter.IsZero() {
		t.Errorf("noted %+v", c.Order)
	}
	if len(w.events(mesh.EventCertOrdered)) != 1 {
		t.Error("nobody was told")
	}
	next := requestFor(t, newKey(t), "*.a.example.net")
	if _, err := w.ask(next); err != nil {
		t.Fatal(err)
	}
	if r := w.ordered(id, third.Attempt); string(r.Request) != string(next) {
		t.Error("the next key is not ordered for")
	}
	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Cores, w.core.ID, func(c *mesh.Core) error { c.Revoked = true; return nil })
	})
	eventually(t, "a revoked core gets nothing", func() bool { return w.Order() == nil })
	eventually(t, "a revoked core is forgotten", func() bool { return len(w.cells.All()) == 0 })
}

// The next leader goes on where the last one was, and keeps to its waits.
func TestTheNextLeaderWaitsAsLong(t *testing.T) {
	w := newWorld(t, func(s *Service) {
		brisk(s)
		s.Pace.First, s.Pace.Ours, s.Pace.Most = time.Hour, time.Hour, time.Hour
	})
	w.run()
	w.configure("https://ca.example/dir")
	csr := requestFor(t, newKey(t), "*.a.example.net")
	if _, err := w.ask(csr); err != nil {
		t.Fatal(err)
	}
	stop := w.lead()
	w.registered()
	r := w.ordered(string(w.core.ID), 0)
	w.Ended(chores.CertOutcome{ID: r.ID, Attempt: r.Attempt, Failure: acme.Refused})
	eventually(t, "the failure is noted", func() bool { return w.record().Order.Failures == 1 })
	stop()
	if w.Order() != nil {
		t.Error("orders of a server that no longer leads")
	}
	w.Ended(chores.CertOutcome{ID: r.ID, Attempt: r.Attempt}) // too late for anybody
	w.lead()
	time.Sleep(100 * time.Millisecond)
	if w.Order() != nil {
		t.Error("ordered again at once")
	}
	w.change(func(tx *store.Tx) error { // what `admin acme order` does
		return store.Update(tx, w.st.CellCerts, w.core.ID, func(c *mesh.CellCert) error { c.Order.Next = time.Time{}; return nil })
	})
	w.ordered(string(w.core.ID), r.Attempt)
}

func TestTheSubscriptionServicesCertificateIsOrderedAndReplaced(t *testing.T) {
	w := newWorld(t, brisk)
	w.run()
	w.lead()
	w.configure("https://ca.example/dir")
	w.set.Store(&mesh.SubscriptionSettings{Name: "sub.example.net", Certificate: mesh.SubscriptionACME})
	w.registered()
	take := func(other uint64, life time.Duration) chores.CertRequest {
		t.Helper()
		r := w.ordered(idSubscription, other)
		req, err := x509.ParseCertificateRequest(r.Request)
		if err != nil || r.Name != "sub.example.net" || !slices.Equal(req.DNSNames, []string{"sub.example.net"}) {
			t.Fatalf("ordered %+v, %v", r, err)
		}
		chain := w.ca.certify(t, r.Request, life)
		w.Ended(chores.CertOutcome{ID: r.ID, Attempt: r.Attempt, Chain: chain})
		eventually(t, "it is shown", func() bool {
			c := w.Subscription()
			return c != nil && string(c.Certificate[0]) == string(chain[0])
		})
		return r
	}
	first := take(0, time.Hour)
	w.change(func(tx *store.Tx) error { // as if it were of long ago
		return store.Update(tx, w.st.SubCert, store.SubCertKey, func(c *mesh.SubscriptionCert) error {
			c.Order.Issued = c.Order.Issued.Add(-9 * time.Hour)
			return nil
		})
	})
	second := take(first.Attempt, time.Hour) // with another key
	if sameKey(first.Request, second.Request) {
		t.Error("the key was not replaced")
	}
	item, err := w.st.SubCert.Get(t.Context(), store.SubCertKey)
	if err != nil || item.Value.Pending != "" || strings.Contains(string(item.Value.Key), "PRIVATE") {
		t.Errorf("stored %+v, %v", item.Value, err)
	}
}

func TestAnAccountThatIsRefusedIsToldOfOnce(t *testing.T) {
	w := newWorld(t, brisk)
	w.run()
	w.lead()
	w.configure("https://ca.example/dir")
	var last uint64
	for range 3 {
		r := w.ordered(idAccount, last)
		last = r.Attempt
		w.Ended(chores.CertOutcome{ID: r.ID, Attempt: r.Attempt, Failure: acme.Account, Detail: "go away"})
	}
	r := w.ordered(idAccount, last)
	st, err := w.st.ACMEState.Get(t.Context(), store.ACMEStateKey)
	if err != nil || st.Value.Failures != 3 || !strings.Contains(st.Value.Reason, "go away") || len(w.events(mesh.EventCertOrderFailed)) != 1 {
		t.Errorf("state %+v, %v", st.Value, err)
	}
	w.Ended(chores.CertOutcome{ID: r.ID, Attempt: r.Attempt, Account: "https://ca.example/acct/1"})
	eventually(t, "the account is known", func() bool {
		st, err := w.st.ACMEState.Get(t.Context(), store.ACMEStateKey)
		return err == nil && st.Value.Account != "" && st.Value.Failures == 0 && st.Value.Reason == ""
	})
}

func TestPeopleAreToldOfEnds(t *testing.T) {
	w := newWorld(t, brisk)
	csr := requestFor(t, newKey(t), "*.a.example.net")
	if _, err := w.ask(csr); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	w.run()
	w.lead()
	for _, tt := range []struct {
		gone, left time.Duration
		events     int
		level      mesh.Severity
	}{
		{60, 30, 0, ""}, {70, 20, 1, mesh.Warning}, {80, 5, 2, mesh.Critical}, {90, -1, 3, mesh.Critical},
	} {
		day := 24 * time.Hour
		w.change(func(tx *store.Tx) error {
			return store.Update(tx, w.st.CellCerts, w.core.ID, func(c *mesh.CellCert) error {
				c.Order.Issued, c.Order.NotAfter = now.Add(-tt.gone*day), now.Add(tt.left*day)
				return nil
			})
		})
		eventually(t, "people are told", func() bool { return len(w.events(mesh.EventCertExpiring)) >= tt.events })
		time.Sleep(120 * time.Millisecond) // twice the watch: not told again
		e := w.events(mesh.EventCertExpiring)
		if len(e) != tt.events {
			t.Errorf("%d days left: %d events, want %d", tt.left, len(e), tt.events)
		}
		eventually(t, "the mirror has it", func() bool { c, _ := w.cells.Get(w.core.ID); return c.Order.NotAfter.Equal(now.Add(tt.left * day)) })
		w.set.Store(&mesh.SubscriptionSettings{})
		if p := w.Problems(); (len(p) == 0) != (tt.level == "") {
			t.Errorf("%d days left: problems %v", tt.left, p)
		}
	}
}

func TestWaitsGrowAndObeyTheAuthority(t *testing.T) {
	p := Pace{}.withDefaults()
	for _, tt := range []struct {
		n        int
		f        acme.Failure
		wanted   time.Duration
		from, to time.Duration
	}{
		{1, acme.Refused, 0, 50 * time.Second, 70 * time.Second},
		{4, acme.Refused, 0, 7 * time.Minute, 9 * time.Minute},
		{100, acme.Refused, 0, 5 * time.Hour, 7 * time.Hour},
		{100, acme.CAARecord, 0, 13 * time.Minute, 17 * time.Minute},
		{1, acme.RateLimit, 30 * time.Hour, 30 * time.Hour, 30 * time.Hour},
		{1, acme.RateLimit, 1 << 62, 7 * 24 * time.Hour, 7 * 24 * time.Hour},
	} {
		if d := p.after(tt.n, tt.f, tt.wanted); d < tt.from || d > tt.to {
			t.Errorf("%+v: %v", tt, d)
		}
	}
}
