//go:build faults

package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// subscriptionName is where clients ask what they may connect to.
const subscriptionName = "sub.lab.example.org"

// fetchLimit is how long a client may wait for its subscription, whatever failed.
const fetchLimit = time.Second

// subscriptionFiles are the certificate of the subscription service, the same on
// every server.
func (l *Lab) subscriptionFiles(t testing.TB) map[string]any {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{subscriptionName}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := l.subscriptionCert(), filepath.Join(l.Dir, "sub.key")
	err = errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"cert-file": certFile, "key-file": keyFile}
}

func (l *Lab) subscriptionCert() string { return filepath.Join(l.Dir, "sub.crt") }

// subscriber is a client that has a subscription link.
type subscriber struct {
	url   string
	from  *Host
	roots *x509.CertPool
}

// subscribers turns the service on, and makes links for new devices.
func (l *Lab) subscribers(t *testing.T, n int) (out []subscriber) {
	t.Helper()
	must(t, l, admin.ConfigSet, admin.ConfigSetRequest{Patch: []byte(`{"subscription":{"name":"` + subscriptionName + `"}}`)})
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(l.subscriptionCert()); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate of the service: %v", err)
	}
	for range n {
		c := l.NewClient(t, memberName)
		link := must(t, l, admin.DeviceSubscribe, admin.DeviceSubscribeRequest{Ref: string(c.Device.ID)})
		out = append(out, subscriber{link.URL, l.Client, roots})
	}
	l.WaitFor(t, patience, "subscriptions are served", func() error {
		for _, e := range l.Entries {
			if _, err := out[n-1].fetch(t.Context(), e); err != nil {
				return err
			}
		}
		return nil
	})
	return out
}

// fetched is an answer, and how long it took with a connection of its own.
type fetched struct {
	took time.Duration
	asOf time.Time
}

// fetch asks for the subscription through an entry.
func (s subscriber) fetch(ctx context.Context, entry *Host) (fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, lab.SetupTime)
	defer cancel()
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.from.Dial(ctx, entry.At(443)) },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"?format=sing-box", nil)
	if err != nil {
		return fetched{}, err
	}
	begin := time.Now()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return fetched{}, fmt.Errorf("through %s, after %v: %w", entry.Name, time.Since(begin), redacted(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	took := time.Since(begin)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"outbounds"`)) {
		err = fmt.Errorf("through %s: %s", entry.Name, resp.Status)
	}
	asOf, timeErr := time.Parse(time.RFC3339, resp.Header.Get("Subscription-As-Of"))
	return fetched{took, asOf}, errors.Join(err, timeErr)
}

// redacted keeps links out of the log of a run.
func redacted(err error) error { return errors.Unwrap(err) }

// fetchAll fetches for every subscriber through every entry, and wants no
// failure. It returns the slowest.
func (l *Lab) fetchAll(t *testing.T, all []subscriber) (slowest time.Duration) {
	t.Helper()
	for _, s := range all {
		for _, e := range l.Entries {
			f, err := s.fetch(t.Context(), e)
			if err != nil {
				t.Error(err)
			}
			slowest = max(slowest, f.took)
		}
	}
	return slowest
}

func TestSubscriptionsWhileAServerIsKilled(t *testing.T) {
	l := theLab(t)
	all := l.subscribers(t, 10)
	t.Logf("with all servers the slowest answer took %v", l.fetchAll(t, all))
	for _, h := range l.Mgmt {
		h.Kill(t)
		slowest := l.fetchAll(t, all)
		t.Logf("with %s killed the slowest answer took %v", h.Name, slowest)
		within(t, "an answer", slowest, fetchLimit)
		h.Start(t)
		l.WaitUntilWell(t)
	}
}

func TestSubscriptionsWhileAServerIsFrozen(t *testing.T) {
	l := theLab(t)
	all := l.subscribers(t, 5)
	for _, h := range l.Mgmt {
		h.Freeze(t)
		slowest := l.fetchAll(t, all)
		t.Logf("with %s frozen the slowest answer took %v", h.Name, slowest)
		within(t, "an answer", slowest, 2*fetchLimit) // an entry waits a second before it asks the next
		h.Thaw(t)
		l.WaitUntilWell(t)
	}
}

// Without a quorum the server that is left answers from its own copy, and says
// how old that is. A link that nobody has used yet works too; a change does not.
func TestSubscriptionsWithoutAQuorum(t *testing.T) {
	l := theLab(t)
	all := l.subscribers(t, 5)
	used, unused := all[:3], all[3:]
	l.fetchAll(t, used)
	leader := l.Leader(t)
	down := []*Host{leader, l.other(leader)}
	down[0].Kill(t)
	down[1].Stop(t, patience)
	lost := time.Now()
	slowest := max(l.fetchAll(t, used), l.fetchAll(t, unused))
	t.Logf("without a quorum the slowest answer took %v", slowest)
	within(t, "an answer", slowest, fetchLimit)
	l.refusesChanges(t, l.other(down...))
	var f fetched
	l.WaitFor(t, patience, "the age of an answer shows", func() (err error) {
		f, err = unused[0].fetch(t.Context(), l.Entries[0])
		if err == nil && time.Since(f.asOf) < 10*time.Second {
			err = fmt.Errorf("as of %v ago", time.Since(f.asOf))
		}
		return err
	})
	if f.asOf.After(lost.Add(10 * time.Second)) {
		t.Errorf("the answer says that it is of %v, and the quorum was lost at %v", f.asOf, lost)
	}
	for _, h := range down {
		h.Start(t)
	}
	l.WaitUntilWell(t)
	l.WaitFor(t, patience, "answers are of now again", func() error {
		f, err := unused[0].fetch(t.Context(), l.Entries[0])
		if err == nil && time.Since(f.asOf) > 10*time.Second {
			err = fmt.Errorf("as of %v ago", time.Since(f.asOf))
		}
		return err
	})
}

// The service is asked by whoever guesses links: they find nothing, links are in no
// log, and those who have one are served meanwhile.
func TestSubscriptionLinksCannotBeGuessed(t *testing.T) {
	l := theLab(t)
	all := l.subscribers(t, 2)
	guess := all[0]
	at := strings.LastIndex(guess.url, "/")
	for i := range 200 {
		guess.url = all[0].url[:at+1] + mesh.NewSecret(24).Reveal()
		if _, err := guess.fetch(t.Context(), l.Entries[i%2]); err == nil {
			t.Fatal("a guess was answered")
		}
	}
	l.fetchAll(t, all)
	for _, h := range l.roles() {
		text, err := os.ReadFile(h.Log())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if strings.Contains(string(text), s.url[at+1:]) {
				t.Errorf("%s has a link in its log", h.Name)
			}
		}
	}
}
