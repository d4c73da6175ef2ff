package mesh

import (
	"errors"
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	for a, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700:4700::1111": true, "64:ff9b::808:808": true,

		"0.0.0.0": false, "127.0.0.1": false, "127.255.0.1": false, "10.1.2.3": false, "172.16.0.1": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"192.0.2.1": false, "198.18.0.1": false, "240.0.0.1": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false,
		"2002:7f00:1::": false, "2001:db8::1": false, "3fff::1": false,
		// What a cloud answers its own machines with credentials at, also where it looks public.
		"168.63.129.16": false, "64:ff9b::a83f:8110": false, "100.100.100.200": false,
		// An IPv4 address in other clothes: compatible, translated, Teredo; and what is not given out.
		"::127.0.0.1": false, "::8.8.8.8": false, "::ffff:0:127.0.0.1": false, "2001:0:4136:e378:8000:63bf:3fff:fdd2": false, "4000::1": false,
	} {
		err := Public(netip.MustParseAddr(a))
		if (err == nil) != want || err != nil && !errors.Is(err, ErrDenied) {
			t.Errorf("%s: got %v, want public %v", a, err, want)
		}
	}
	if err := Public(netip.Addr{}); !errors.Is(err, ErrDenied) {
		t.Errorf("no address: %v", err)
	}
}

func TestAddressPolicy(t *testing.T) {
	p := AddressPolicy{
		Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("203.0.113.0/24")},
		Deny:  []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("8.8.4.4")},
	}
	for a, want := range map[string]bool{
		"10.1.1.1": true, "::ffff:10.1.1.1": true, "203.0.113.9": true, "8.8.8.8": true,
		"10.0.0.5": false, "::ffff:10.0.0.5": false, "8.8.4.4": false, "192.168.0.1": false, "127.0.0.1": false,
		// NAT64 leads to the IPv4 address inside.
		"64:ff9b::10.0.0.5": false, "64:ff9b::8.8.4.4": false, "64:ff9b::10.1.1.1": true, "64:ff9b::192.168.0.1": false,
	} {
		if err := p.Check(netip.MustParseAddr(a)); (err == nil) != want {
			t.Errorf("%s: got %v, want allowed %v", a, err, want)
		}
	}
}
