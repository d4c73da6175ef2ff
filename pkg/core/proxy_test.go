package core

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// browser is an HTTP client that uses the core as its proxy, through a relay.
func (w *world) browser(t *testing.T, s *relay.Session, c client, secret mesh.Secret) *http.Client {
	t.Helper()
	pool := w.ca.pool.Clone()
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "https", Host: c.name() + ":443", User: url.UserPassword(c.Id, secret.Reveal())}),
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.Open(ctx, header(c))
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func (w *world) trust(hc *http.Client, origin *httptest.Server) {
	hc.Transport.(*http.Transport).TLSClientConfig.RootCAs.AddCert(origin.Certificate())
}

func TestABrowserReachesOriginsThroughTheCore(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	var seen http.Header
	answer := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(rw, "%s %s %s", r.Method, r.URL.RequestURI(), body)
	})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	hc := w.browser(t, w.session(t), c, c.secret)
	w.trust(hc, secure)
	for _, origin := range []string{plain.URL, secure.URL} {
		res, err := hc.Post(origin+"/path?a=1;b=2", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if string(body) != "POST /path?a=1;b=2 hello" {
			t.Errorf("%s: %d %q", origin, res.StatusCode, body)
		}
		for _, h := range []string{"Proxy-Authorization", "Proxy-Connection", "Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host"} {
			if seen.Get(h) != "" {
				t.Errorf("%s: the origin saw %s: %s", origin, h, seen.Get(h))
			}
		}
	}
	hc.CloseIdleConnections()
	eventually(t, "streams end", func() bool { _, n := w.devices.count(); return n == 0 })
	if u, _ := w.devices.take(); len(u) != 1 || u[0].GetDevice() != c.Id || u[0].GetUp() == 0 || u[0].GetDown() == 0 || u[0].GetConnections() == 0 {
		t.Errorf("usage %v", u)
	}
}

func basic(user, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+secret))
}

// ask sends raw text on a new stream and returns the answer.
func (w *world) ask(t *testing.T, s *relay.Session, c client, raw, method string) (*http.Response, string) {
	t.Helper()
	tc := w.connect(t, s, c)
	defer tc.Close()
	if _, err := io.WriteString(tc, raw); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(tc), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.60q: %v", raw, err)
	}
	defer res.Body.Close()
	if method == http.MethodConnect && res.StatusCode == http.StatusOK {
		return res, ""
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestCredentialsDecideWhatARequestGets(t *testing.T) {
	w := newWorld(t)
	c, other := newClient(), newClient()
	w.know(t, c, other)
	origin := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "origin") }))
	defer origin.Close()
	host := strings.TrimPrefix(origin.URL, "http://")
	creds := map[string]string{
		"none":            "",
		"wrong":           basic(c.Id, "wrong"),
		"other's":         basic(other.Id, other.secret.Reveal()),
		"own as other":    basic(other.Id, c.secret.Reveal()),
		"other as own":    basic(c.Id, other.secret.Reveal()),
		"no colon":        "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Id)),
		"not base64":      "Basic !!!",
		"another scheme":  "Bearer " + c.secret.Reveal(),
		"twice":           basic(c.Id, c.secret.Reveal()) + "\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()),
		"right":           basic(c.Id, c.secret.Reveal()),
		"right, in lower": strings.Replace(basic(c.Id, c.secret.Reveal()), "Basic", "basic", 1),
	}
	requests := []struct {
		method, target string
		without, with  int
	}{
		{"CONNECT", host, 405, 200},
		{"CONNECT", c.HiddenHost + ":443", 407, 200},
		{"CONNECT", strings.ToUpper(c.HiddenHost) + ".:80", 407, 200},
		{"CONNECT", other.HiddenHost + ":443", 405, 502},
		{"GET", "http://" + host + "/", 200, 200},
		{"GET", "http://" + c.HiddenHost + "/", 200, 502},
		{"GET", "http://" + host + "/none", 404, 200},
		{"POST", "http://" + host + "/", 405, 200},
		{"GET", "/", 200, 200},
		{"HEAD", "/", 200, 200},
		{"GET", "/none", 404, 404},
		{"DELETE", "/", 405, 405},
		{"OPTIONS", "*", 405, 405},
	}
	w.dialer.resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	s := w.session(t)
	for name, cred := range creds {
		right := strings.HasPrefix(name, "right")
		for _, r := range requests {
			raw := r.method + " " + r.target + " HTTP/1.1\r\nHost: " + host + "\r\n"
			if cred != "" {
				raw += "Proxy-Authorization: " + cred + "\r\n"
			}
			res, body := w.ask(t, s, c, raw+"Connection: close\r\n\r\n", r.method)
			want := r.without
			if right {
				want = r.with
			}
			if res.StatusCode != want {
				t.Errorf("%s %s with %s credentials: %d, want %d", r.method, r.target, name, res.StatusCode, want)
			}
			if challenge := res.Header.Get("Proxy-Authenticate"); (challenge != "") != (want == 407) {
				t.Errorf("%s %s with %s credentials: challenge %q", r.method, r.target, name, challenge)
			}
			if !right && strings.Contains(body, "origin") {
				t.Errorf("%s %s with %s credentials reached the origin", r.method, r.target, name)
			}
			if !right && want != 407 && strings.Contains(strings.ToLower(body), "proxy") {
				t.Errorf("%s %s with %s credentials tells of a proxy: %q", r.method, r.target, name, body)
			}
		}
	}
}

func TestDestinationsAreJudgedAfterResolution(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Egress.Allow = nil })
	c := newClient()
	w.know(t, c)
	names := map[string][]string{
		"loop.example.com":     {"127.0.0.1"},
		"loop6.example.com":    {"::1"},
		"private.example.com":  {"10.1.2.3", "192.168.0.1"},
		"metadata.example.com": {"169.254.169.254"},
		"mapped.example.com":   {"::ffff:127.0.0.1"},
		"nat64.example.com":    {"64:ff9b::7f00:1"},
		"ula.example.com":      {"fd00::1"},
		"none.example.com":     {},
	}
	w.dialer.resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		list, ok := names[host]
		if !ok || len(list) == 0 {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		var out []netip.Addr
		for _, a := range list {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
	tests := []struct {
		target string
		want   int
	}{
		{"loop.example.com:80", 403}, {"LOOP.example.com.:80", 403}, {"loop6.example.com:80", 403},
		{"private.example.com:443", 403}, {"metadata.example.com:80", 403}, {"mapped.example.com:80", 403},
		{"nat64.example.com:80", 403}, {"ula.example.com:80", 403},
		{"127.0.0.1:80", 403}, {"[::1]:80", 403}, {"[::ffff:127.0.0.1]:80", 403}, {"0.0.0.0:80", 403}, {"169.254.169.254:80", 403},
		{"none.example.com:80", 502},
		{"example.com:25", 403},
		{"127.1:80", 400}, {"0x7f.1:80", 400}, {"0x7f000001:80", 400}, {"2130706433:80", 400}, {"0177.0.0.1:80", 400},
		{"[fe80::1%25eth0]:80", 400}, {"example.com", 400}, {"example.com:0", 400}, {"example.com:65536", 400}, {"example.com:080", 400},
	}
	s := w.session(t)
	for _, tt := range tests {
		raw := "CONNECT " + tt.target + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n"
		if res, _ := w.ask(t, s, c, raw, "CONNECT"); res.StatusCode != tt.want {
			t.Errorf("CONNECT %s: %d, want %d", tt.target, res.StatusCode, tt.want)
		}
	}
	raw := "GET http://loop.example.com/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n"
	if res, body := w.ask(t, s, c, raw, "GET"); res.StatusCode != 403 || !strings.Contains(body, "loopback") {
		t.Errorf("plain: %d %q", res.StatusCode, body)
	}
	raw = "GET https://example.com/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n"
	if res, _ := w.ask(t, s, c, raw, "GET"); res.StatusCode != 400 {
		t.Errorf("https in absolute form: %d", res.StatusCode)
	}
}

func TestDeadDestinations(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.Dial = 2 * time.Second })
	c := newClient()
	w.know(t, c)
	w.dialer.resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }
	s := w.session(t)
	for target, want := range map[string]int{freeport.Addr(t): 502, "slow.example.com:80": 504} {
		raw := "CONNECT " + target + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n"
		if res, _ := w.ask(t, s, c, raw, "CONNECT"); res.StatusCode != want {
			t.Errorf("CONNECT %s: %d, want %d", target, res.StatusCode, want)
		}
	}
}

// E-08: the core's own relay is no destination, whatever the owner allows.
func TestTheCoreDoesNotDialItself(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	raw := "CONNECT " + w.addr + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n"
	if res, body := w.ask(t, w.session(t), c, raw, "CONNECT"); res.StatusCode != 403 || !strings.Contains(body, "mesh itself") {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}

// Behind NAT the core's public address is that of a router, which may show its
// owner's pages to those inside.
func TestTheAddressTheCoreIsSeenFromIsItsOwn(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Observed = func() string { return "8.8.4.4:40001" } })
	c := newClient()
	w.know(t, c)
	raw := "CONNECT 8.8.4.4:80 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n"
	if res, body := w.ask(t, w.session(t), c, raw, "CONNECT"); res.StatusCode != 403 || !strings.Contains(body, "this core itself") {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}

// The name inside TLS is the client's own: the header is only a claim.
func TestTheInnerNameMustBeTheStreams(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	for name, cfg := range map[string]*tls.Config{
		"another device's name": w.clientTLS("other." + suffix),
		"no name":               {InsecureSkipVerify: true},
		"no common protocol":    {RootCAs: w.ca.pool, ServerName: c.name(), NextProtos: []string{"spdy/3"}},
		"an old TLS":            {RootCAs: w.ca.pool, ServerName: c.name(), MaxVersion: tls.VersionTLS11},
	} {
		st, err := s.Open(t.Context(), header(c))
		if err != nil {
			t.Fatal(err)
		}
		tc := tls.Client(st, cfg)
		if err := tc.Handshake(); err == nil {
			t.Errorf("%s: accepted", name)
		}
		_ = tc.Close()
	}
	// E-06: names are folded by the one function, here as at the entry.
	h := header(c)
	h.ServerName = strings.ToUpper(h.ServerName) + "."
	st, err := s.Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(st, &tls.Config{RootCAs: w.ca.pool, ServerName: strings.ToUpper(c.name())})
	if err := tc.Handshake(); err != nil {
		t.Error(err)
	}
	_ = tc.Close()
}

func TestHugeHeadersAreRefused(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.HeaderTime = 2 * time.Second })
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	res, _ := w.ask(t, s, c, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", 80<<10)+"\r\n\r\n", "GET")
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", res.StatusCode)
	}
	tc := w.connect(t, s, c) // says nothing
	if err := tc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := tc.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a silent client: %v", err)
	}
}

func TestFallbackIsTheOwnersSite(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"index.html": "front", "sub/index.html": "sub", "files/a.txt": "a"} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "escape")); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("credentials reached the fallback")
		}
		fmt.Fprintf(rw, "site %s", r.URL.Path)
	}))
	defer site.Close()
	tests := []struct {
		where, path string
		status      int
		body        string
	}{
		{dir, "/", 200, "front"}, {dir, "/sub/", 200, "sub"}, {dir, "/files/a.txt", 200, "a"},
		{dir, "/files/", 404, ""}, {dir, "/escape", 404, ""}, {dir, "/../../etc/passwd", 404, ""},
		{site.URL, "/x", 200, "site /x"},
	}
	for _, tt := range tests {
		w := newWorld(t, func(o *Options) { o.Config.Egress.Fallback = tt.where })
		c := newClient()
		w.know(t, c)
		s := w.session(t)
		res, body := w.ask(t, s, c, "GET "+tt.path+" HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic eDp5\r\n\r\n", "GET")
		if res.StatusCode != tt.status || tt.body != "" && body != tt.body {
			t.Errorf("%s: %d %q", tt.path, res.StatusCode, body)
		}
		if res, _ := w.ask(t, s, c, "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT"); res.StatusCode != 405 {
			t.Errorf("CONNECT without credentials: %d", res.StatusCode)
		}
	}
	o := Options{Config: DefaultConfig()}
	o.Config.Egress.Fallback = filepath.Join(dir, "absent")
	if _, err := newFallback(o.Config.Egress.Fallback, nil); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("an absent folder: %v", err)
	}
}

// International names reach the resolver as A-labels, however a client writes
// them.
func TestInternationalNames(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	var asked []string
	w.dialer.resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		asked = append(asked, host)
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, r.Host) }))
	defer site.Close()
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	s := w.session(t)
	auth := "Proxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n"
	for _, name := range []string{"пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f", "%D0%BF%D1%80%D0%B8%D0%BC%D0%B5%D1%80.испытание"} {
		host := name + ":" + port
		if !strings.Contains(name, "%") {
			if res, body := w.ask(t, s, c, "CONNECT "+host+" HTTP/1.1\r\nHost: x\r\n"+auth, "CONNECT"); res.StatusCode != 200 {
				t.Errorf("CONNECT %s: %d %q", name, res.StatusCode, body)
			}
		}
		if res, body := w.ask(t, s, c, "GET http://"+host+"/ HTTP/1.1\r\nHost: x\r\n"+auth, "GET"); res.StatusCode != 200 {
			t.Errorf("GET %s: %d %q", name, res.StatusCode, body)
		}
	}
	for _, host := range asked {
		if host != "xn--e1afmkfd.xn--80akhbyknj4f" {
			t.Errorf("asked for %q", host)
		}
	}
}
