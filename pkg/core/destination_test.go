package core

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestParseDestination(t *testing.T) {
	good := map[string]string{
		"example.com:443":           "example.com:443",
		"EXAMPLE.com.:443":          "example.com:443",
		"xn--bcher-kva.example:80":  "xn--bcher-kva.example:80",
		"_dmarc.a_b.example.com:80": "_dmarc.a_b.example.com:80",
		"localhost:1":               "localhost:1",
		"192.0.2.1:65535":           "192.0.2.1:65535",
		"[2001:db8::1]:80":          "[2001:db8::1]:80",
		"[::ffff:192.0.2.1]:80":     "192.0.2.1:80",
		"0xdead.example.com:80":     "0xdead.example.com:80",
		"1.2.3.example:80":          "1.2.3.example:80",
		"bücher.example:80":         "xn--bcher-kva.example:80",
		"Пример.РФ.:443":            "xn--e1afmkfd.xn--p1ai:443",
		"例え。テスト:80":                 "xn--r8jz45g.xn--zckzah:80",
		"fa\u00dfball.example:80":   "xn--faball-cta.example:80",
	}
	for in, want := range good {
		if d, err := parseDestination(in); err != nil || d.String() != want {
			t.Errorf("%s: %v, %v", in, d, err)
		}
	}
	for _, in := range []string{
		"", ":80", "example.com", "example.com:", "example.com:http", "example.com:+80", "example.com:0", "example.com:99999",
		"bü cher.example:80", "b\u00fc\u200d.example:80", "１２７.0.0.1:80", "xn--ü:80", "ü_a.example:80", "\xff.example:80", "a..b:80", ".a:80", "a b:80", "a\x00b:80", "a\r\nb:80", "user@host:80", "*.example.com:80",
		"[192.0.2.1]:80", "2001:db8::1:80", "[fe80::1%eth0]:80", "192.0.2.1.5:80", "192.0.2:80", "0x1:80", "a.0x1:80", "192.0.2.01:80",
	} {
		if d, err := parseDestination(in); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%q: %v, %v", in, d, err)
		}
	}
}

func TestPolicy(t *testing.T) {
	p := policy{
		allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, denyPorts: []uint16{25},
		mesh: parseMeshAddresses([]string{"198.18.0.1:8443", "10.9.9.9:8443", "203.0.114.1", "mgmt.example.net:8443", "[2a00::1]:8444", "entry.example.net"}),
		own: func() []netip.Addr {
			return []netip.Addr{netip.MustParseAddr("203.0.115.5"), netip.MustParseAddr("10.1.1.1")}
		},
		relay: func() uint16 { return 8444 },
	}
	for addr, ok := range map[string]bool{
		"8.8.8.8:53": true, "10.1.2.3:80": true, "192.168.1.1:80": false, "127.0.0.1:80": false,
		"10.9.9.9:8443": false, "10.9.9.9:80": true, "203.0.114.1:1": false, "203.0.114.2:1": true,
		"203.0.115.5:22": false, "10.1.1.1:22": true, "10.1.1.1:8444": false, "[2a00::1]:8444": false, "[2a00::1]:443": true,
		"[::ffff:10.9.9.9]:8443": false, "[::ffff:127.0.0.1]:80": false,
		// NAT64 leads to the IPv4 address inside; a cloud's credentials are at a public one too.
		"[64:ff9b::10.9.9.9]:8443": false, "[64:ff9b::203.0.114.1]:1": false, "[64:ff9b::203.0.115.5]:22": false, "[64:ff9b::10.1.1.1]:8444": false,
		"[64:ff9b::8.8.8.8]:53": true, "168.63.129.16:80": false, "168.63.129.17:80": true,
	} {
		if _, err := p.permitted([]netip.Addr{netip.MustParseAddrPort(addr).Addr()}, netip.MustParseAddrPort(addr).Port()); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for name, ok := range map[string]bool{
		"mgmt.example.net:8443": false, "mgmt.example.net:443": true, "entry.example.net:1": false, "example.com:25": false, "example.com:587": true,
	} {
		d, err := parseDestination(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.checkName(d); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of several addresses only those that may be dialled are kept.
	got, err := p.permitted([]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("8.8.8.8")}, 80)
	if err != nil || len(got) != 1 || got[0].Addr().String() != "8.8.8.8" {
		t.Errorf("%v, %v", got, err)
	}
}
