package control

import (
	"errors"
	"net"
	"testing"
)

// Failure table, "core's address changes": nobody tells a node that what it sends
// from its old address is lost.
func TestAStreamKnowsThatItsAddressIsGone(t *testing.T) {
	addresses := func(list ...string) func() ([]net.Addr, error) {
		return func() ([]net.Addr, error) {
			var out []net.Addr
			for _, s := range list {
				ip, n, err := net.ParseCIDR(s)
				if err != nil {
					return nil, err
				}
				out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
			}
			return out, nil
		}
	}
	unknown := func() ([]net.Addr, error) { return nil, errors.New("no netlink") }
	here, v6 := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 4711}, &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}
	for _, tt := range []struct {
		name        string
		local       net.Addr
		before, now func() ([]net.Addr, error)
		want        bool
	}{
		{"the address is there", here, addresses("127.0.0.1/8", "192.0.2.7/24"), addresses("192.0.2.7/24"), false},
		{"another was given in its place", here, addresses("192.0.2.7/24"), addresses("127.0.0.1/8", "192.0.2.8/24"), true},
		{"every address is gone", here, addresses("192.0.2.7/24"), addresses(), true},
		{"it never was an interface's", here, addresses("10.0.0.1/8"), addresses("10.0.0.1/8"), false},
		{"an address with a zone stays", v6, addresses("fe80::1/64"), addresses("fe80::1/64"), false},
		{"the list cannot be read", here, addresses("192.0.2.7/24"), unknown, false},
		{"the list could not be read", here, unknown, addresses(), false},
		{"no address of an interface at all", &net.UnixAddr{Name: "x"}, addresses(), addresses(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := placeOf(tt.local, tt.before)
			p.addresses = tt.now
			if got := p.left(); got != tt.want {
				t.Errorf("left = %v, want %v", got, tt.want)
			}
		})
	}
}
