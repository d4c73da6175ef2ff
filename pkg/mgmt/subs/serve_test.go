package subs

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
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
