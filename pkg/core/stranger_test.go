package core

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// webServer is what a core must not be told from: the same site, served by
// net/http alone.
func webServer(t *testing.T, w *world) string {
	t.Helper()
	site, err := newFallback("", quiet())
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: site, ReadHeaderTimeout: w.cfg.Limits.HeaderTime, ErrorLog: slog.NewLogLogger(quiet().Handler(), slog.LevelDebug),
		MaxHeaderBytes: DefaultConfig().Limits.HeaderBytes, DisableGeneralOptionsHandler: true, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{*w.cell.certificate(time.Now())}, NextProtos: []string{"http/1.1"}}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(tls.NewListener(ln, cfg)) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return ln.Addr().String()
}

var dates = regexp.MustCompile(`Date: [^\r]*\r\n`)

// said sends pieces and returns all that comes back, without the time of day.
// Who has answered may take no more.
func said(t *testing.T, c *tls.Conn, pieces ...string) string {
	t.Helper()
	defer c.Close()
	for _, p := range pieces {
		if _, err := io.WriteString(c, p); err != nil {
			break
		}
	}
	_ = c.CloseWrite()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if isTimeout(err) {
		t.Fatalf("%.40q: no answer", pieces)
	}
	return dates.ReplaceAllString(string(got), "")
}

// slowly cuts text into bytes, up to the end of its first line.
func slowly(text string) []string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.Split(line+"\n", "")
}

// strangers are what somebody sends who has no credentials of this device, but
// perhaps those of another.
func strangers(c, other client) map[string][]string {
	to := clientproto.Destination{Name: "example.com", Port: 443}
	wrong := string(other.vless(cmdTCP, to))
	key := other.secret.TrojanKey()
	auth := "Proxy-Authorization: " + basic(other.Id, other.secret.Reveal()) + "\r\n"
	return map[string][]string{
		"nothing":                          {},
		"a line of garbage":                {"garbage\r\n"},
		"garbage without a line":           {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
		"zeros":                            {strings.Repeat("\x00", 300) + "\r\n\r\n"},
		"another's VLESS":                  {wrong},
		"another's VLESS and a line":       {wrong + "\r\n\r\n"},
		"a VLESS of mux":                   {string(other.vless(cmdMux, to)) + "\n\n"},
		"half of a user":                   {"\x00\x01\x02\x03"},
		"half of a user and a line":        {"\x00\x01\x02\n"},
		"VLESS byte by byte":               slowly(wrong),
		"another's Trojan":                 {string(other.trojan(cmdTCP, to))},
		"another's key alone":              {key + "\r\n"},
		"half of a key":                    {key[:20]},
		"a key without its line":           {key},
		"a key in capitals":                {strings.ToUpper(key) + "\r\n\r\n"},
		"a key and no carriage return":     {key + "\n\n"},
		"a key byte by byte":               slowly(key + "\r"),
		"SOCKS5":                           {"\x05\x01\x02"},
		"SOCKS4":                           {"\x04\x01\x00\x50\x08\x08\x08\x08\x00\r\n"},
		"SOCKS5 and a line":                {"\x05\x01\x02\r\n\r\n"},
		"CONNECT":                          {"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"},
		"CONNECT, wrong password":          {"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n" + auth + "\r\n"},
		"CONNECT to another's hidden host": {"CONNECT " + other.HiddenHost + ":443 HTTP/1.1\r\nHost: x\r\n\r\n"},
		"absolute form":                    {"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"},
		"absolute form, wrong password":    {"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n" + auth + "Connection: close\r\n\r\n"},
		"absolute form of https":           {"GET https://example.com/x HTTP/1.1\r\nHost: example.com\r\n\r\n"},
		"a page":                           {"GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		"a page in pieces":                 {"GET", " / HT", "TP/1.1\r\nHost", ": x\r\n", "\r\n"},
		"two requests at once":             {"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\n\r\n"},
		"half of a request":                {"GET / HTTP/1.1\r\nHos"},
		"HTTP/1.0":                         {"GET / HTTP/1.0\r\n\r\n"},
		"HTTP/0.9":                         {"GET /\r\n"},
		"HTTP/9":                           {"GET / HTTP/9.0\r\n\r\n"},
		"OPTIONS":                          {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"},
		"no host":                          {"GET / HTTP/1.1\r\n\r\n"},
		"smuggling":                        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"a WebSocket where there is none":  {"GET /none HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"},
		"no WebSocket where there is one":  {"GET " + wsPath + " HTTP/1.1\r\nHost: x\r\n\r\n"},
		"a call in HTTP/1.1":               {"POST /" + grpcService + "/Tun HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n"},
		"TRACE":                            {"TRACE / HTTP/1.1\r\nHost: " + c.name() + "\r\nMax-Forwards: 0\r\n\r\n"},
		"a long line":                      {"GET /" + strings.Repeat("a", 3000) + " HTTP/1.1\r\nHost: x\r\n\r\n"},
	}
}

// Whoever has no credentials gets what a web server answers, byte by byte.
func TestAStrangerSeesAWebServer(t *testing.T) {
	w := newWorld(t)
	c, other := newClient(), newClient()
	w.know(t, c, other)
	cfg := everything(&controlpb.Config{Revision: 2, CellSuffix: suffix, CellId: "cell-1"})
	cfg.Offers = nil
	for _, o := range mesh.Offers() {
		if o.Protocol != mesh.ProtocolSOCKS {
			cfg.Offers = append(cfg.Offers, o.String())
		}
	}
	if err := w.ApplyConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	site, s := webServer(t, w), w.session(t)
	for name, pieces := range strangers(c, other) {
		for _, alpn := range [][]string{nil, {"http/1.1"}, {"h2", "http/1.1"}} {
			ask := w.clientTLS(c.name())
			ask.NextProtos = alpn
			web, err := tls.Dial("tcp", site, ask)
			if err != nil {
				t.Fatal(err)
			}
			got, want := said(t, w.connectAs(t, s, c, ask), pieces...), said(t, web, pieces...)
			if got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
	if n := w.egress.(*proxy).tunnels.count(); n != 0 {
		t.Errorf("%d tunnels", n)
	}
}

// Who begins something and stops is answered as by a web server, whatever it
// could have become.
func TestAStrangerWhoStopsSeesAWebServer(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.HeaderTime = 3 * time.Second })
	c := newClient()
	w.know(t, c)
	site, s := webServer(t, w), w.session(t)
	var wg sync.WaitGroup
	for _, text := range []string{"", "G", "GET / HTTP/1.1\r\nHo", "a", strings.Repeat("a", 57), "\x00", "\x00\x01\x02", "P", "PRI * HTTP/2"} {
		ask := w.clientTLS(c.name())
		web, err := tls.Dial("tcp", site, ask)
		if err != nil {
			t.Fatal(err)
		}
		core := w.connectAs(t, s, c, ask)
		wg.Go(func() {
			got := make(chan string, 1)
			go func() { got <- heard(t, core, text) }()
			want := heard(t, web, text)
			if got := <-got; got != want {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		})
	}
	wg.Wait()
}

// heard sends text, and returns what comes back until the server ends it.
func heard(t *testing.T, c *tls.Conn, text string) string {
	defer c.Close()
	_, err := io.WriteString(c, text)
	if err = errors.Join(err, c.SetReadDeadline(time.Now().Add(patience))); err != nil {
		t.Error(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("%q: %v", text, err)
	}
	return dates.ReplaceAllString(string(got), "")
}

// noted is a connection that notes when reading from it ends.
type noted struct {
	halfConn
	until time.Time
}

func (c *noted) SetReadDeadline(t time.Time) error { c.until = t; return nil }

// What looking took is not given once more for the header.
func TestTheTimeForAHeaderIsGivenOnce(t *testing.T) {
	until := time.Now().Add(time.Second)
	below := &noted{}
	c := &looked{halfConn: below, until: until}
	later := until.Add(time.Minute)
	for i, x := range []struct{ set, want time.Time }{{later, until}, {time.Time{}, time.Time{}}, {later, later}} {
		if err := c.SetReadDeadline(x.set); err != nil || !below.until.Equal(x.want) {
			t.Errorf("%d: %v, %v, want %v", i, below.until, err, x.want)
		}
	}
}

// connectAs is connect with settings of TLS.
func (w *world) connectAs(t *testing.T, s *relay.Session, c client, cfg *tls.Config) *tls.Conn {
	t.Helper()
	st, err := s.Open(t.Context(), header(c))
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(st, cfg)
	if err := tc.Handshake(); err != nil {
		t.Fatal(err)
	}
	return tc
}

// Right credentials for what the cell does not offer are no credentials.
func TestWhatIsNotOfferedIsNotThere(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	echo := echoAt(t)
	site, s := webServer(t, w), w.session(t)
	auth := "Proxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n"
	upgrade := "GET " + wsPath + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	pieces := map[string]string{
		"vless-tcp":  string(c.vless(cmdTCP, at(echo))) + "\r\n\r\n",
		"trojan-tcp": string(c.trojan(cmdTCP, at(echo))),
		"vless-ws":   upgrade,
		"http-tcp":   "CONNECT " + echo + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n",
		"socks-tcp":  "\x05\x01\x02\r\n\r\n",
		"407":        "CONNECT " + c.HiddenHost + ":443 HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	for offer, text := range pieces {
		cfg := everything(&controlpb.Config{Revision: 2, CellSuffix: suffix, CellId: "cell-1"})
		cfg.Offers = []string{"vless-tcp"}
		if offer == "vless-tcp" {
			cfg.Offers = []string{"trojan-tcp", "vless-grpc"}
		}
		if err := w.ApplyConfig(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		web, err := tls.Dial("tcp", site, w.clientTLS(c.name()))
		if err != nil {
			t.Fatal(err)
		}
		got, want := said(t, w.connect(t, s, c), text), said(t, web, text)
		if got != want {
			t.Errorf("%s: got %q, want %q", offer, got, want)
		}
	}
}

// The same in HTTP/2, where only the answers can be compared.
func TestAStrangerSeesAWebServerInHTTP2(t *testing.T) {
	w := newWorld(t)
	c, other := newClient(), newClient()
	w.know(t, c, other)
	echo := echoAt(t)
	tr := w.h2(t, w.session(t), c)
	ask := func(method, path, host, auth, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+c.name()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		if method == http.MethodConnect {
			req.URL.Path = ""
		}
		if auth != "" {
			req.Header.Set("Proxy-Authorization", auth)
		}
		req.Header.Set("Content-Type", "application/grpc")
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	hunk := func(b []byte) string { return string(clientproto.AppendHunk(nil, b)) }
	right, wrong := basic(c.Id, c.secret.Reveal()), basic(other.Id, other.secret.Reveal())
	for name, tt := range map[string]struct {
		method, path, host, auth, body string
		want                           int
	}{
		"a page":                         {method: "GET", path: "/", want: 200},
		"no page":                        {method: "GET", path: "/none", want: 404},
		"CONNECT":                        {method: "CONNECT", host: echo, want: 405},
		"CONNECT, wrong password":        {method: "CONNECT", host: echo, auth: wrong, want: 405},
		"the hidden host":                {method: "CONNECT", host: c.HiddenHost + ":443", want: 407},
		"the hidden host, right":         {method: "CONNECT", host: c.HiddenHost + ":443", auth: right, want: 200},
		"another's hidden host":          {method: "CONNECT", host: other.HiddenHost + ":443", want: 405},
		"another origin":                 {method: "GET", path: "/", host: "example.com", want: 200},
		"a denied destination":           {method: "CONNECT", host: "10.0.0.1:80", auth: right, want: 403},
		"a call without credentials":     {method: "POST", path: "/" + grpcService + "/Tun", body: hunk([]byte("hello\r\n")), want: 405},
		"a call that is none":            {method: "POST", path: "/" + grpcService + "/Tun", body: "hello\r\n", want: 405},
		"an empty call":                  {method: "POST", path: "/" + grpcService + "/Tun", want: 405},
		"a call with another's":          {method: "POST", path: "/" + grpcService + "/Tun", body: hunk(other.vless(cmdTCP, at(echo))), want: 405},
		"a call of a service not there":  {method: "POST", path: "/none/Tun", body: hunk(c.vless(cmdTCP, at(echo))), want: 405},
		"a call of a method not there":   {method: "POST", path: "/" + grpcService + "/Other", body: hunk(c.vless(cmdTCP, at(echo))), want: 405},
		"a call of the service replaced": {method: "POST", path: "/old-service/Tun", body: hunk(c.vless(cmdTCP, at(echo))), want: 200},
		"a call of many":                 {method: "POST", path: "/" + grpcService + "/TunMulti", body: hunk(c.trojan(cmdTCP, at(echo))), want: 200},
	} {
		res := ask(tt.method, tt.path, tt.host, tt.auth, tt.body)
		if res.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, tt.want)
		}
		if h := res.Header.Get("Proxy-Authenticate"); (h != "") != (tt.want == 407) {
			t.Errorf("%s: challenge %q", name, h)
		}
	}
}

// What a site behind the core is asked is the whole request, also when it was
// looked at first.
func TestTheSiteGetsTheWholeRequest(t *testing.T) {
	got := make(chan string, 1)
	site := newSite(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.Path + " " + base64.StdEncoding.EncodeToString(b)
	}))
	w := newWorld(t, func(o *Options) { o.Config.Egress.Fallback = site })
	c := newClient()
	w.know(t, c)
	body := strings.Repeat("stranger\r\n", 2000)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+c.name()+"/"+grpcService+"/Tun", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	res, err := w.h2(t, w.session(t), c).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if s := <-got; s != "POST /"+grpcService+"/Tun "+base64.StdEncoding.EncodeToString([]byte(body)) {
		t.Errorf("%.100s", s)
	}
}

func newSite(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return "http://" + ln.Addr().String()
}
