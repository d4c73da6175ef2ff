package subs

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

func TestWhoIsLetIn(t *testing.T) {
	certified := true
	w := start(t, func(s *Service) {
		given := s.Certificate
		s.Certificate = func() (c *tls.Certificate) {
			if certified {
				c = given()
			}
			return c
		}
	})
	sess := w.entry(t, "entry-1")
	refusedAs := func(name mesh.ServerName, code relay.Code, retryable bool) {
		t.Helper()
		_, err := open(t.Context(), sess, name, clientAddress)
		no, ok := errors.AsType[*relay.RefusedError](err)
		if !ok || no.Code != code || no.Retryable != retryable {
			t.Errorf("%s: %v, want code %v, retryable %v", name, err, code, retryable)
		}
	}
	refusedAs("phone.a.example.net", relay.CodeUnknownDevice, false)
	certified = false
	refusedAs(serviceName, relay.CodeInternal, true)
	certified = true
	w.change(func() { w.config.Subscription.Name = "" })
	refusedAs(serviceName, relay.CodeUnknownDevice, false)
	w.change(func() { w.config.Subscription.Name = serviceName })
	// The stream's name is the entry's claim; inside TLS the client names it itself.
	c := w.client(t, sess, false)
	c.Transport.(*http.Transport).TLSClientConfig.ServerName = "other.example.net"
	if resp, err := c.Get("https://" + string(serviceName) + "/"); err == nil {
		resp.Body.Close()
		t.Error("the certificate was shown to a client that asked for another name")
	}
}

func TestOneEntryDoesNotKeepOthersOut(t *testing.T) {
	w := start(t, func(s *Service) { s.Limits = Limits{Sessions: 4, Streams: 4} })
	first, second := w.entry(t, "entry-1"), w.entry(t, "entry-1")
	if first == nil || second == nil || w.entry(t, "entry-1") != nil {
		t.Fatal("want two sessions of one entry of four, and no third")
	}
	other := w.entry(t, "entry-2")
	for range 2 {
		c, err := open(t.Context(), first, serviceName, clientAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	_, err := open(t.Context(), second, serviceName, clientAddress)
	if no, ok := errors.AsType[*relay.RefusedError](err); !ok || no.Code != relay.CodeLimit || !no.Retryable {
		t.Errorf("a third client: %v", err)
	}
	c, err := open(t.Context(), other, serviceName, clientAddress)
	if err != nil {
		t.Fatalf("another entry: %v", err)
	}
	c.Close()
	eventually(t, "room again", func() bool { return w.door.open() == 2 })
}

func TestOneAddressDoesNotKeepOthersOut(t *testing.T) {
	w := start(t, func(s *Service) { s.Limits = Limits{PerSource: 2} })
	sess := w.entry(t, "entry-1")
	from := netip.MustParseAddrPort("[2001:db8::1]:1")
	enter := func(from netip.AddrPort) error {
		c, err := open(t.Context(), sess, serviceName, from)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	}
	for range 2 {
		if err := enter(from); err != nil {
			t.Fatal(err)
		}
	}
	err := enter(netip.MustParseAddrPort("[2001:db8::2]:1"))
	if no, ok := errors.AsType[*relay.RefusedError](err); !ok || no.Code != relay.CodeLimit {
		t.Errorf("a third client of that network: %v", err)
	}
	for range 3 { // who is not named is not counted
		if err := enter(netip.AddrPort{}); err != nil {
			t.Error(err)
		}
	}
	if err := enter(clientAddress); err != nil {
		t.Errorf("another address: %v", err)
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	w := start(t, func(s *Service) { s.Limits.PerSource = 1000 })
	cell, ada := w.addCell("Berlin"), w.addMember("ada")
	var secrets []mesh.Secret
	for range 100 {
		_, secret := w.addDevice(ada, cell)
		secrets = append(secrets, secret)
	}
	w.known(t, secrets[99])
	sessions := []*relay.Session{w.entry(t, "entry-1"), w.entry(t, "entry-2")}
	var wg sync.WaitGroup
	for i, secret := range secrets {
		wg.Go(func() {
			c := w.client(t, sessions[i%2], i%3 > 0)
			for range 3 {
				if r := get(t, c, secret); r.status != http.StatusOK || r.body == "" {
					t.Errorf("client %d: %d", i, r.status)
				}
			}
			c.CloseIdleConnections()
		})
	}
	wg.Wait()
	eventually(t, "all have left", func() bool { return w.door.open() == 0 })
}

func TestAServerThatStopsSendsEntriesElsewhere(t *testing.T) {
	w := start(t)
	_, secret := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	eventually(t, "the link is known", func() bool { _, ok := w.index.find(secret); return ok })
	sess := w.entry(t, "entry-1")
	c := w.client(t, sess, true)
	get(t, c, secret)
	began := time.Now()
	w.stop()
	if took := time.Since(began); took > farewell+5*time.Second {
		t.Errorf("it stopped after %v", took)
	}
	if _, err := open(t.Context(), sess, serviceName, netip.AddrPort{}); err == nil {
		t.Error("a client was let in after the end")
	}
	if w.entry(t, "entry-1") != nil {
		t.Error("a session was taken after the end")
	}
}

// Guesses count against the address that the entry names, each its own.
func TestTheClientsAddressIsWhatTheEntrySays(t *testing.T) {
	w := start(t, func(s *Service) { s.Limits.Misses = 3 })
	sess := w.entry(t, "entry-1")
	guess := func(from string) int {
		c := w.client(t, sess, true)
		c.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return open(ctx, sess, serviceName, netip.MustParseAddrPort(from))
		}
		return get(t, c, mesh.NewSecret(24)).status
	}
	for range 3 {
		if got := guess("192.0.2.1:1"); got != http.StatusNotFound {
			t.Fatalf("a guess: %d", got)
		}
	}
	if got := guess("192.0.2.1:2"); got != http.StatusTooManyRequests {
		t.Errorf("one guess more: %d", got)
	}
	if got := guess("192.0.2.2:1"); got != http.StatusNotFound {
		t.Errorf("from elsewhere: %d", got)
	}
}

// A client that says nothing is let go, and has no room for long.
func TestSilentClientsAreLetGo(t *testing.T) {
	w := start(t, func(s *Service) { s.headerTime = 2 * time.Second })
	sess := w.entry(t, "entry-1")
	silent, err := open(t.Context(), sess, serviceName, clientAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := open(t.Context(), sess, serviceName, clientAddress)
	if err != nil {
		t.Fatal(err)
	}
	half := tls.Client(conn, &tls.Config{RootCAs: w.roots, ServerName: string(serviceName)})
	defer half.Close()
	if _, err := half.Write([]byte("GET /s/x HTTP/1.1\r\nHost: x\r\nX-Slow: ")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both have been let go", func() bool { return w.door.open() == 0 })
}
