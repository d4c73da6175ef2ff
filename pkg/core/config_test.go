package core

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestConfigFaultsAreNamed(t *testing.T) {
	tests := []struct {
		says   string // "": valid
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"", func(c *Config) { c.Egress = Egress{Kind: EgressForward, Forward: "127.0.0.1:80"} }},
		{"", func(c *Config) {
			c.Egress.Fallback = "/srv/www"
			c.Advertise = []string{"core.example.net:8444", "[2001:db8::1]:8444"}
		}},
		{"", func(c *Config) { c.Egress.Fallback = "http://127.0.0.1:8080" }},
		{"advertise", func(c *Config) { c.Advertise = []string{"core.example.net"} }},
		{"advertise", func(c *Config) { c.Advertise = []string{":8444"} }},
		{"egress.kind", func(c *Config) { c.Egress.Kind = "vpn" }},
		{"egress.forward", func(c *Config) { c.Egress = Egress{Kind: EgressForward} }},
		{"egress.forward", func(c *Config) { c.Egress.Forward = "127.0.0.1:80" }},
		{"egress.fallback", func(c *Config) { c.Egress.Fallback = "www" }},
		{"egress.fallback", func(c *Config) { c.Egress.Fallback = "https://example.com" }},
		{"egress.allow", func(c *Config) { c.Egress.Allow = []netip.Prefix{{}} }},
		{"limits.streams", func(c *Config) { c.Limits.Streams = 0 }},
		{"limits.handshake", func(c *Config) { c.Limits.Handshake = 0 }},
		{"drain", func(c *Config) { c.Drain = -1 }},
	}
	for _, tt := range tests {
		c := DefaultConfig()
		tt.change(&c)
		err := c.Validate()
		if tt.says == "" && err != nil || tt.says != "" && (!errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("want %q, got %v", tt.says, err)
		}
	}
	both := Config{Limits: DefaultConfig().Limits, Drain: -1}
	if err := both.Validate(); !strings.Contains(err.Error(), "egress.kind") || !strings.Contains(err.Error(), "drain") {
		t.Errorf("not every fault is named: %v", err)
	}
}

// H-06: what cannot run is refused and changes nothing.
func TestManagementsConfigurationIsChecked(t *testing.T) {
	m := identitytest.New(t)
	s, err := New(Options{Node: m.Node(t, mesh.RoleCore), Revocations: m.Revocations(t), Config: DefaultConfig(), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	good := &controlpb.Config{CellSuffix: suffix, CellId: "cell-1", CellCertificate: "private"}
	if err := s.ApplyConfig(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]*controlpb.Config{
		"no suffix":                       {},
		"an address as suffix":            {CellSuffix: "127.0.0.1"},
		"a hostile suffix":                {CellSuffix: "../../etc"},
		"a certificate of a kind unknown": {CellSuffix: "b.example.net", CellCertificate: "later"},
		"a way in that is not known":      {CellSuffix: "b.example.net", Offers: []string{"http-tcp", "vless-quic"}},
		"a path without a slash":          {CellSuffix: "b.example.net", WebsocketPaths: []string{"path"}},
		"an empty path":                   {CellSuffix: "b.example.net", WebsocketPaths: []string{"/"}},
		"a path with a query":             {CellSuffix: "b.example.net", WebsocketPaths: []string{"/path?ed=2048"}},
		"a service with a space":          {CellSuffix: "b.example.net", GrpcServices: []string{"a b"}},
		"a long service":                  {CellSuffix: "b.example.net", GrpcServices: []string{strings.Repeat("a", 200)}},
		"many services":                   {CellSuffix: "b.example.net", GrpcServices: slices.Repeat([]string{"a"}, 17)},
	} {
		if err := s.ApplyConfig(t.Context(), bad); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.applied.Load().suffix != suffix {
		t.Errorf("runs %v", s.applied.Load())
	}
	// Of a management server from before there were others comes HTTP alone.
	if w := s.ways.Load(); !w.has(mesh.ProtocolHTTP, mesh.TransportTCP) || len(w.offers) != 1 {
		t.Errorf("offers %v", w.offers)
	}
}

func TestHelloTellsWhatTheCoreIs(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Advertise = []string{"core.example.net:8444"} })
	w.know(t, newClient())
	var h controlpb.Hello
	eventually(t, "the port is known", func() bool { w.Hello(&h); return h.GetRelayPort() != 0 })
	if h.GetDevicesRevision() != 1 || h.GetCellSuffix() != suffix || h.GetCellNotAfterUnix() == 0 || len(h.GetAdvertise()) != 1 ||
		h.GetEgress().GetKind() != EgressProxy || len(h.GetEgress().GetAllow()) != 1 || len(h.GetRelayProtocols()) != 1 {
		t.Errorf("%v", &h)
	}
}
