package subs

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

func TestAClientIsToldWhatItMayConnectTo(t *testing.T) {
	w := start(t)
	cell := w.addCell("Berlin")
	id, secret := w.addDevice(w.addMember("ada"), cell)
	eventually(t, "the link is known", func() bool { _, ok := w.index.find(secret); return ok })
	for _, h2 := range []bool{false, true} {
		c := w.client(t, w.entry(t, "entry-1"), h2)
		r := get(t, c, secret)
		links, err := base64.StdEncoding.DecodeString(r.body)
		if r.status != http.StatusOK || err != nil || (r.proto == "HTTP/2.0") != h2 {
			t.Fatalf("h2 %v: %d %s %q: %v", h2, r.status, r.proto, r.body, err)
		}
		d, _ := w.facts.Device(id)
		name := d.Labels[0].Label + "." + string(w.Cells()[cell].Suffix)
		if !strings.Contains(string(links), "vless://") || !strings.Contains(string(links), name) || !strings.Contains(string(links), "@entry.example.net:443") {
			t.Errorf("links %q do not lead to %s", links, name)
		}
		for k, want := range map[string]string{
			"Cache-Control": "private, no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
			"Content-Type": "text/plain; charset=utf-8", "Profile-Update-Interval": "12", "Subscription-Userinfo": "upload=0; download=0",
		} {
			if got := r.header.Get(k); got != want {
				t.Errorf("%s: %q, want %q", k, got, want)
			}
		}
		if _, err := time.Parse(time.RFC3339, r.header.Get("Subscription-As-Of")); err != nil {
			t.Error(err)
		}
	}
}

func TestFormatsByNamePathAndAgent(t *testing.T) {
	w := start(t)
	_, secret := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	eventually(t, "the link is known", func() bool { _, ok := w.index.find(secret); return ok })
	c := w.client(t, w.entry(t, "entry-1"), true)
	for _, tt := range []struct{ agent, path, query, kind, holds string }{
		{agent: "sing-box 1.14.1", kind: "application/json; charset=utf-8", holds: `"outbounds"`},
		{agent: "clash.meta", kind: "application/yaml; charset=utf-8", holds: "proxies:"},
		{query: "format=plain", kind: "text/plain; charset=utf-8", holds: "vless://"},
		{path: "/clash.yaml", kind: "application/yaml; charset=utf-8", holds: "proxies:"},
		{path: "/pac", kind: "application/x-ns-proxy-autoconfig", holds: "FindProxyForURL"},
		{agent: "curl/8", path: "/", kind: "text/plain; charset=utf-8"},
	} {
		r := get(t, c, secret, func(r *http.Request) {
			r.URL.Path += tt.path
			r.URL.RawQuery = tt.query
			r.Header.Set("User-Agent", tt.agent)
		})
		if r.status != http.StatusOK || r.header.Get("Content-Type") != tt.kind || !strings.Contains(r.body, tt.holds) {
			t.Errorf("%+v: %d %s %.80q", tt, r.status, r.header.Get("Content-Type"), r.body)
		}
	}
}

// TestABrowserThatTrustsAPrivateCellSaysSo: a PAC file cannot carry its authority.
func TestABrowserThatTrustsAPrivateCellSaysSo(t *testing.T) {
	w := start(t)
	cell := w.addCell("Berlin", func(c *mesh.Cell) {
		c.Suffix, c.Certificate, c.CACert = "berlin.example.net", mesh.CertificatePrivate, "an authority"
	})
	_, secret := w.addDevice(w.addMember("ada"), cell)
	w.known(t, secret)
	for query, want := range map[string]bool{"format=pac": false, "format=pac&ca=installed": true} {
		r := w.ask("/s/"+secret.Reveal()+"?"+query, "192.0.2.1")
		if got := strings.Contains(r.Body.String(), "berlin.example.net"); r.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d %s", query, r.Code, r.Body)
		}
	}
}

func TestPeopleGetAPage(t *testing.T) {
	w := start(t)
	_, secret := w.addDevice(w.addMember("Иван <b>"), w.addCell("Berlin"))
	w.known(t, secret)
	c := w.client(t, w.entry(t, "entry-1"), true)
	browser := func(query, languages string) reply {
		return get(t, c, secret, func(r *http.Request) {
			r.URL.RawQuery = query
			r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0")
			r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
			r.Header.Set("Accept-Language", languages)
		})
	}
	for _, tt := range []struct{ query, languages, want string }{
		{"", "ru-RU,ru;q=0.9,en;q=0.5", "ru"}, {"", "de", "en"}, {"lang=ru", "en", "ru"}, {"lang=en", "ru", "en"},
	} {
		r := browser(tt.query, tt.languages)
		if r.status != http.StatusOK || r.header.Get("Content-Type") != "text/html; charset=utf-8" || r.header.Get("Content-Language") != tt.want {
			t.Errorf("%+v: %d %v", tt, r.status, r.header)
		}
		if !strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'none'") || r.header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("headers %v", r.header)
		}
		if !strings.Contains(r.body, secret.Reveal()) || strings.Contains(r.body, "<b>") {
			t.Error("the page has no link, or what a name put in")
		}
	}
	r := browser("", "en")
	again := get(t, c, secret, func(q *http.Request) {
		q.URL.RawQuery = "format=html"
		q.Header.Set("If-None-Match", r.header.Get("Etag"))
		q.Header.Set("Accept-Language", "en")
	})
	if again.status != http.StatusNotModified {
		t.Errorf("again: %d", again.status)
	}
}

func TestWhatDidNotChangeIsNotSentAgain(t *testing.T) {
	w := start(t)
	cell := w.addCell("Berlin")
	id, secret := w.addDevice(w.addMember("ada"), cell)
	eventually(t, "the link is known", func() bool { _, ok := w.index.find(secret); return ok })
	c := w.client(t, w.entry(t, "entry-1"), true)
	first := get(t, c, secret)
	tag := first.header.Get("Etag")
	again := get(t, c, secret, func(r *http.Request) { r.Header.Set("If-None-Match", tag) })
	if again.status != http.StatusNotModified || again.body != "" || again.header.Get("Subscription-Userinfo") == "" {
		t.Errorf("again: %d %q %v", again.status, again.body, again.header)
	}
	head := get(t, c, secret, func(r *http.Request) { r.Method = http.MethodHead })
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Etag") != tag || head.header.Get("Content-Length") != first.header.Get("Content-Length") {
		t.Errorf("HEAD: %d %q %v", head.status, head.body, head.header)
	}
	w.setDevice(id, func(d *mesh.Device) { d.RotateLabel(time.Now(), time.Hour) })
	changed := get(t, c, secret, func(r *http.Request) { r.Header.Set("If-None-Match", tag) })
	if changed.status != http.StatusOK || changed.header.Get("Etag") == tag {
		t.Errorf("after a change: %d, tag %s", changed.status, changed.header.Get("Etag"))
	}
}

// A document is made once for all who ask while nothing changes.
func TestDocumentsAreKept(t *testing.T) {
	w := start(t)
	id, secret := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	eventually(t, "the link is known", func() bool { _, ok := w.index.find(secret); return ok })
	c := w.client(t, w.entry(t, "entry-1"), true)
	kept := func() *document {
		get(t, c, secret)
		w.cache.mu.Lock()
		defer w.cache.mu.Unlock()
		return w.cache.docs[docKey{device: id, format: "base64"}]
	}
	first := kept()
	if first == nil || kept() != first {
		t.Error("the document was made again")
	}
	w.change(func() { w.config.EntryAddresses = []string{"[2001:db8::1]:8443"} })
	if kept() == first {
		t.Error("the document is as it was before a change")
	}
}

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

func TestAPanicEndsOneRequestOnly(t *testing.T) {
	w := start(t)
	_, secret := w.addDevice(w.addMember("ada"), w.addCell("Berlin"))
	eventually(t, "the link is known", func() bool { _, ok := w.index.find(secret); return ok })
	c := w.client(t, w.entry(t, "entry-1"), true)
	ok := w.State
	w.State = panics{w.facts}
	if r := get(t, c, secret); r.status != http.StatusInternalServerError {
		t.Errorf("status %d", r.status)
	}
	w.State = ok
	if r := get(t, c, secret); r.status != http.StatusOK {
		t.Errorf("afterwards: %d", r.status)
	}
	if logs := w.logs.String(); !strings.Contains(logs, "answer panicked") || strings.Contains(logs, secret.Reveal()) {
		t.Errorf("log: %s", logs)
	}
}

type panics struct{ *facts }

func (panics) Member(mesh.MemberID) (mesh.Member, bool) { panic("planted") }

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
	w := start(t, func(s *Service) { s.headerTime = 200 * time.Millisecond })
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
