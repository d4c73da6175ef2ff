package core

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// FuzzDevices: whatever arrives is applied whole or not at all.
func FuzzDevices(f *testing.F) {
	c := newClient()
	for _, m := range []*controlpb.Devices{
		{Snapshot: true, Revision: 2, Upserts: []*controlpb.Device{c.Device}},
		{Base: 1, Revision: 2, Removes: []string{c.Id}},
		{Snapshot: true, Revision: 3, More: true},
		{Base: 1, Revision: 2, Upserts: []*controlpb.Device{{Id: c.Id, ServerNames: []string{"..", "a.b"}, MaxTraffic: -1}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m controlpb.Devices
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		tb := openDevices("", 10, quiet())
		first := newClient()
		apply(t, tb, first)
		before, _ := tb.count()
		err := tb.apply(&m)
		after, _ := tb.count()
		if err != nil && (tb.held() != 1 || before != after) {
			t.Errorf("%v, but revision %d and %d devices", err, tb.held(), after)
		}
		if err == nil && tb.held() != m.GetRevision() {
			t.Errorf("revision %d, want %d", tb.held(), m.GetRevision())
		}
		for id, d := range tb.known {
			if id != d.ID {
				t.Errorf("%s under %s", d.ID, id)
			}
		}
	})
}

// FuzzDestination: what is accepted reads the same again and is never another
// spelling of an address.
func FuzzDestination(f *testing.F) {
	for _, s := range []string{"example.com:443", "[::1]:80", "127.1:80", "0x7f.1:80", "a_b:1", "[fe80::1%25x]:1", "1.2.3.4:025", "\x00:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDestination(s)
		if err != nil {
			return
		}
		again, err := parseDestination(d.String())
		if err != nil || again != d {
			t.Errorf("%q: %v, then %v, %v", s, d, again, err)
		}
		if d.host != "" && net.ParseIP(d.host) != nil {
			t.Errorf("%q: an address as a name", s)
		}
	})
}

// FuzzRequest: without credentials nothing but the fallback and the challenge
// is ever answered, and nothing is dialled.
func FuzzRequest(f *testing.F) {
	c := newClient()
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: b\r\nProxy-Authorization: Basic Og==\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT " + c.HiddenHost + ":443 HTTP/1.1\r\nHost: x\r\n\r\n", "GET //%2e%2e/etc HTTP/1.0\r\n\r\n",
		"GET " + wsPath + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		"POST /" + grpcService + "/Tun HTTP/2.0\r\nHost: x\r\nContent-Type: application/grpc\r\nContent-Length: 8\r\n\r\n\x00\x00\x00\x00\x03\x0a\x01\x00",
	} {
		f.Add(s)
	}
	tb := openDevices("", 10, quiet())
	d, err := decodeDevice(c.Device)
	if err != nil {
		f.Fatal(err)
	}
	tb.replace(map[mesh.DeviceID]mesh.ServedDevice{d.ID: d})
	fallback, err := newFallback("", quiet())
	if err != nil {
		f.Fatal(err)
	}
	// No dialer: an attempt to reach anything would panic.
	h := newHandler(&handler{devices: tb, ways: new(atomic.Pointer[ways]), fallback: fallback, limits: DefaultConfig().Limits, metrics: newMetrics(nil, tb), log: quiet()})
	h.ways.Store(everyWay(f))
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil || strings.Contains(raw, c.secret.Reveal()) {
			return
		}
		m := &metered{lease: &lease{device: tb.known[d.ID], name: d.ServerNames[0]}}
		w := &answer{header: http.Header{}}
		h.ServeHTTP(w, r.WithContext(context.WithValue(t.Context(), streamKey{}, m)))
		switch w.status {
		case 0, 200, 301, 404, 405, 407:
		case 400, 403, 426, 501: // the answer cannot be hijacked here
			if !isUpgrade(r) || !h.ways.Load().webSocket[r.URL.Path] {
				t.Errorf("%q: %d", raw, w.status)
			}
		default:
			t.Errorf("%q: %d", raw, w.status)
		}
		if w.status == 407 && r.Method != http.MethodConnect {
			t.Errorf("%q: challenged", raw)
		}
	})
}

// everyWay is what a cell offers that offers everything.
func everyWay(t testing.TB) *ways {
	t.Helper()
	w, err := parseWays(everything(&controlpb.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func everything(c *controlpb.Config) *controlpb.Config {
	for _, o := range mesh.Offers() {
		c.Offers = append(c.Offers, o.String())
	}
	c.WebsocketPaths, c.GrpcServices = []string{"/old-path", wsPath}, []string{"old-service", grpcService}
	return c
}

const (
	wsPath      = "/new-path"
	grpcService = "new-service"
)

// answer is a ResponseWriter that keeps the status.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(s int)           { a.status = s }
func (a *answer) Write(b []byte) (int, error) { return io.Discard.Write(b) }
