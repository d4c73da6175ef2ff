package mgmt

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxSocketPath is what fits sockaddr_un on Linux, less the suffix it is made under.
const maxSocketPath = 103

// faults collects everything that is wrong, so that one run shows it all.
type faults []error

func (f *faults) add(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf("mgmt: configuration: "+format+": %w", append(args, mesh.ErrInvalid)...))
	}
}

// Validate reports every fault at once and touches nothing. It returns
// ErrInvalid.
func (c Config) Validate() error {
	var f faults
	f.add(filepath.IsAbs(c.Dir), "dir %q: want an absolute path", mesh.Quotable(c.Dir))
	f.add(mesh.CheckName(c.Name) == nil, "name %q: want 1 to 100 bytes of printable text that does not look like an id", mesh.Quotable(c.Name))
	c.together(&f)
	f.add(filepath.IsAbs(c.Socket()), "socket %q: want an absolute path", mesh.Quotable(c.Socket()))
	f.add(len(c.Socket()) <= maxSocketPath, "socket: the path has %d bytes, at most %d fit; set socket to a shorter one", len(c.Socket()), maxSocketPath)
	c.listeners(&f)
	c.Etcd.validate(&f)
	c.Founding.validate(&f)
	c.Subscription.validate(&f)
	c.Rates.validate(&f)
	c.Bot.validate(&f)
	f.add(c.Ping.Interval >= time.Second && c.Ping.Interval <= 24*time.Hour, "ping.interval %v: want 1s to 24h", c.Ping.Interval)
	f.add(c.Aux.Memory >= 128<<20 && c.Aux.Memory <= 8<<30, "aux.memory %d: want 134217728 (128 MiB) to 8589934592 (8 GiB)", c.Aux.Memory)
	return errors.Join(f...)
}

// together checks what is for meshes of several servers.
func (c Config) together(f *faults) {
	f.add(c.BootstrapExpect == 1 || c.BootstrapExpect == 3, "bootstrap-expect %d: a mesh is founded on 1 server or on 3", c.BootstrapExpect)
	f.add(c.BootstrapExpect == 1 || len(c.Peers) >= c.BootstrapExpect-1, "peers: %d are named, but %d servers found the mesh together; name all of them", len(c.Peers), c.BootstrapExpect)
	for i, p := range gossipPeers(c.Peers) {
		f.add(checkDial(p) == nil, "peers %q: want host or host:port", mesh.Quotable(c.Peers[i]))
	}
	if _, err := netip.ParseAddrPort(c.Etcd.PeerListen); err != nil {
		return // told of already
	}
	g, err := netip.ParseAddrPort(c.gossipAddress())
	f.add(err == nil && !g.Addr().IsUnspecified() && g.Port() != 0, "gossip-listen %q: want one private address and port", mesh.Quotable(c.gossipAddress()))
	if peer := netip.MustParseAddrPort(c.Etcd.PeerListen); peer.Addr().IsLoopback() {
		for _, p := range gossipPeers(c.Peers) {
			host, _, err := net.SplitHostPort(p)
			a, err2 := netip.ParseAddr(host)
			f.add(err != nil || host == "localhost" || err2 == nil && a.IsLoopback(),
				"etcd.peer-listen %s: the server %q cannot reach a loopback address of this one", c.Etcd.PeerListen, mesh.Quotable(p))
		}
	}
}

// checkPeerURL accepts https://address:port.
func checkPeerURL(s string) error {
	at, ok := strings.CutPrefix(s, "https://")
	a, err := netip.ParseAddrPort(at)
	if !ok || err != nil || a.Port() == 0 || a.Addr().IsUnspecified() {
		return errors.New("etcd's peer URL is not https://address:port")
	}
	return nil
}

func (c Config) listeners(f *faults) {
	f.add(checkListen(c.MeshListen) == nil, "listen %q: want host:port or :port", mesh.Quotable(c.MeshListen))
	if len(c.MeshAddresses) == 0 {
		f.add(concrete(c.MeshListen), "addresses: want host:port under which nodes reach this server, since listen %q does not name one host", mesh.Quotable(c.MeshListen))
	}
	for _, a := range c.MeshAddresses {
		f.add(checkDial(a) == nil, "addresses %q: want host:port", mesh.Quotable(a))
	}
	for _, l := range []struct{ key, at string }{{"admin-listen", c.AdminListen}, {"gateway-listen", c.GatewayListen}, {"metrics-listen", c.MetricsListen}} {
		f.add(l.at == "" || concrete(l.at) && checkListen(l.at) == nil, "%s %q: want host:port with one private address", l.key, mesh.Quotable(l.at))
	}
}

// minEtcdLife is for tests, in which years are to pass in seconds.
const minEtcdLife = 5 * time.Second

func (e Etcd) validate(f *faults) {
	client, err := netip.ParseAddrPort(e.ClientListen)
	f.add(err == nil && client.Addr().IsLoopback(), "etcd.client-listen %q: want a loopback address and port", mesh.Quotable(e.ClientListen))
	peer, err := netip.ParseAddrPort(e.PeerListen) // etcd listens on addresses, not on names
	f.add(err == nil && !peer.Addr().IsUnspecified(), "etcd.peer-listen %q: want one private address and port", mesh.Quotable(e.PeerListen))
	f.add(e.Quota >= 64<<20 && e.Quota <= 8<<30, "etcd.quota %d: want 67108864 (64 MiB) to 8589934592 (8 GiB)", e.Quota)
	f.add(e.Heartbeat >= 10*time.Millisecond && e.Heartbeat <= time.Second, "etcd.heartbeat %v: want 10ms to 1s", e.Heartbeat)
	f.add(e.Election >= 5*e.Heartbeat && e.Election <= 50*time.Second, "etcd.election %v: want at least 5 heartbeats and at most 50s", e.Election)
	f.add(e.CertLife >= minEtcdLife && e.CertLife <= ca.DefaultEtcdLife, "etcd.cert-life %v: want %v to %v", e.CertLife, minEtcdLife, ca.DefaultEtcdLife)
}

func (s Subscription) validate(f *faults) {
	f.add((s.CertFile == "") == (s.KeyFile == ""), "subscription: want both cert-file and key-file, or neither")
	for _, x := range []struct{ key, path string }{{"cert-file", s.CertFile}, {"key-file", s.KeyFile}} {
		f.add(x.path == "" || filepath.IsAbs(x.path), "subscription.%s %q: want an absolute path", x.key, mesh.Quotable(x.path))
	}
}

func (b Bot) validate(f *faults) {
	f.add(b.TokenFile == "" || len(b.APIs) > 0, "bot.api: want at least one URL")
	for _, a := range b.APIs {
		u, err := url.Parse(a)
		f.add(err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "",
			"bot.api %q: want the base URL of a Bot API, without a user, such as https://api.telegram.org", mesh.Quotable(withoutUser(a)))
	}
}

// withoutUser is a URL as it may be shown: what is before the host can be a secret.
func withoutUser(text string) string {
	if i := strings.LastIndex(text, "@"); i >= 0 {
		return "…" + text[i:]
	}
	return text
}

func (x Founding) validate(f *faults) {
	for _, a := range x.AllowedAddresses {
		_, err := netip.ParsePrefix(a)
		f.add(err == nil, "founding.allowed-addresses %q: want a range such as 10.0.0.0/8", mesh.Quotable(a))
	}
	for _, a := range x.EntryAddresses {
		f.add(checkDial(a) == nil, "founding.entry-addresses %q: want host:port", mesh.Quotable(a))
	}
	if err := x.config(nil).Validate(); err != nil {
		*f = append(*f, fmt.Errorf("mgmt: configuration: founding: %w", err))
	}
}

func (r Rates) validate(f *faults) {
	for _, x := range []struct {
		key string
		n   int
	}{
		{"connections", r.Connections}, {"connections-burst", r.ConnectionsBurst}, {"handshakes", r.Handshakes},
		{"open", r.Open}, {"token-failures", r.TokenFailures},
	} {
		f.add(x.n >= 1, "rates.%s %d: want 1 or more", x.key, x.n)
	}
}

// config is the mesh-wide configuration a mesh is founded with. Ranges that do
// not parse are left out; Validate names them.
func (x Founding) config(mgmt []string) mesh.Config {
	c := mesh.DefaultConfig()
	for _, a := range x.AllowedAddresses {
		if p, err := netip.ParsePrefix(a); err == nil {
			c.AllowedAddresses = append(c.AllowedAddresses, p.Masked())
		}
	}
	c.MgmtAddresses = mgmt
	c.EntryAddresses = x.EntryAddresses
	c.CertLife = mesh.CertLives{Node: mesh.Duration(x.NodeCertLife), Admin: mesh.Duration(x.AdminCertLife), Mgmt: mesh.Duration(x.MgmtCertLife)}
	c.RenewGrace = mesh.Duration(x.RenewGrace)
	c.StaleIfError = mesh.Duration(x.StaleIfError)
	return c
}

// checkListen accepts host:port, ip:port and :port; port 0 lets the system choose.
func checkListen(a string) error {
	_, port, err := net.SplitHostPort(a)
	if err != nil {
		return err
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err
}

// checkDial accepts what can be dialled: a host and a port other than 0.
func checkDial(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return errors.New("no host or no port")
	}
	return nil
}

// concrete says whether a names one host rather than all interfaces.
func concrete(a string) bool {
	host, _, err := net.SplitHostPort(a)
	if err != nil || host == "" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.IsUnspecified()
}
