package nodes

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// names is a resolver with fixed answers.
type names map[string][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if ips, ok := n[host]; ok {
		return ips, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
}

// E-08: a core must not be able to point entries at the mesh itself, at hosts
// behind an entry, or at a cloud's credentials.
func TestPolicy(t *testing.T) {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	own := []netip.AddrPort{netip.MustParseAddrPort("93.184.216.34:8443"), netip.MustParseAddrPort("127.0.0.1:8443")}
	tests := map[string]struct {
		allow []netip.Prefix
		addr  string
		ok    bool
	}{
		"a public address passes":                        {nil, "1.1.1.1:8444", true},
		"a public IPv6 address passes":                   {nil, "[2606:4700::1]:8444", true},
		"loopback is refused":                            {nil, "127.0.0.1:8444", false},
		"loopback passes where it is allowed":            {loopback, "127.0.0.1:8444", true},
		"but not at the port of management":              {loopback, "127.0.0.1:8443", false},
		"nor hidden inside IPv6":                         {loopback, "[::ffff:127.0.0.1]:8443", false},
		"loopback inside IPv6 is loopback":               {nil, "[::ffff:127.0.0.1]:8444", false},
		"a private address is refused":                   {nil, "10.0.0.1:8444", false},
		"link-local is refused":                          {nil, "169.254.1.1:8444", false},
		"the metadata address is refused":                {nil, "169.254.169.254:80", false},
		"the metadata address is refused if all is open": {everything, "169.254.169.254:80", false},
		"metadata over IPv6 too":                         {everything, "[fd00:ec2::254]:80", false},
		"metadata at a public address too":               {everything, "168.63.129.16:80", false},
		"metadata behind NAT64 too":                      {everything, "[64:ff9b::168.63.129.16]:80", false},
		"management behind NAT64 is refused":             {nil, "[64:ff9b::93.184.216.34]:8444", false},
		"and its port also where all is open":            {everything, "[64:ff9b::93.184.216.34]:8443", false},
		"IPv6 link-local too":                            {everything, "[fe80::1]:8444", false},
		"the host of management is refused at any port":  {nil, "93.184.216.34:8444", false},
		"unless its range is allowed":                    {everything, "93.184.216.34:8444", true},
		"and then its own port is refused still":         {everything, "93.184.216.34:8443", false},
		"port zero is refused":                           {everything, "1.1.1.1:0", false},
		"the unspecified address is refused":             {everything, "0.0.0.0:8444", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := newPolicy(tt.allow, own).check(netip.MustParseAddrPort(tt.addr))
			if (err == nil) != tt.ok {
				t.Errorf("check(%s) = %v, want ok %v", tt.addr, err, tt.ok)
			}
			if err != nil && !errors.Is(err, mesh.ErrDenied) {
				t.Errorf("check(%s) = %v, want ErrDenied", tt.addr, err)
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	dns := names{"core.example": {netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("10.1.1.1")}}
	observed := netip.MustParseAddr("::ffff:9.9.9.9")
	tests := map[string]struct {
		advertise []string
		port      uint32
		want      string
		fault     string
	}{
		"the observed address with the relay's port":       {nil, 8444, "9.9.9.9:8444", ""},
		"what is advertised wins":                          {[]string{"8.8.8.8:9000"}, 8444, "8.8.8.8:9000", ""},
		"an address without port gets the relay's":         {[]string{"8.8.8.8", "2606:4700::1"}, 8444, "8.8.8.8:8444 [2606:4700::1]:8444", ""},
		"a name is resolved and each address judged":       {[]string{"core.example:9000"}, 8444, "1.1.1.1:9000", "10.1.1.1 is private"},
		"a name that is not there is told without servers": {[]string{"gone.example"}, 8444, "", `resolve "gone.example": no such host`},
		"equal ones are tried once":                        {[]string{"8.8.8.8", "8.8.8.8:8444"}, 8444, "8.8.8.8:8444", ""},
		"a port that is none":                              {[]string{"8.8.8.8:x"}, 8444, "", "want host or host:port"},
		"no relay port":                                    {nil, 0, "", "relay port 0"},
		"a flood is cut":                                   {[]string{"8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5", "8.8.8.6", "8.8.8.7", "8.8.8.8", "8.8.8.9"}, 1, "8.8.8.1:1 8.8.8.2:1 8.8.8.3:1 8.8.8.4:1 8.8.8.5:1 8.8.8.6:1 8.8.8.7:1 8.8.8.8:1", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := candidates(t.Context(), dns, newPolicy(nil, nil), tt.advertise, observed, tt.port)
			var words []string
			for _, a := range got {
				words = append(words, a.String())
			}
			if s := strings.Join(words, " "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("error %v, want %q", err, tt.fault)
			}
			if err != nil && strings.Contains(err.Error(), "192.0.2.53") {
				t.Errorf("error %v names the resolver", err)
			}
		})
	}
}
