//go:build kube

package kube

import (
	"errors"
	"net/netip"
	"os"

	"github.com/meshctl/meshctl/internal/lab"
)

// prefix marks namespaces and control groups as these tests', so that what a
// killed run left can be told from everybody else's.
const prefix = "mckube-"

// subnet is where the hosts are: TEST-NET-3, which is nobody's. Each pod has an
// address of its worker's part of pods, and each Service one of services.
var (
	subnet   = netip.MustParsePrefix("203.0.113.0/24")
	pods     = netip.MustParsePrefix("10.244.0.0/16")
	services = netip.MustParsePrefix("10.96.0.0/16")
)

func hostAddr(last byte) netip.Addr {
	b := subnet.Addr().As4()
	b[3] = last
	return netip.AddrFrom4(b)
}

// fabric joins the hosts of one run: a namespace with a bridge.
type fabric struct {
	run string // of this run's names
}

func (f fabric) name(host string) lab.Namespace { return lab.Namespace(prefix + f.run + "-" + host) }

func (f fabric) hub() lab.Namespace { return f.name("fabric") }

func (f fabric) create() error {
	return lab.IP("netns add "+string(f.hub()), "-n "+string(f.hub())+" link add br0 up type bridge")
}

// attach makes a namespace for a host and joins it to the bridge. What it does
// not know the way to goes to the first address of the subnet, where nobody is.
func (f fabric) attach(host string, addr netip.Addr) (lab.Namespace, error) {
	n := f.name(host)
	if err := n.Make(); err != nil {
		return n, err
	}
	if err := n.Join(f.hub(), "br0", host, "eth0", netip.PrefixFrom(addr, subnet.Bits())); err != nil {
		return n, err
	}
	return n, lab.IP("-n " + string(n) + " route add default via " + hostAddr(1).String())
}

// detach pulls a host's plug.
func (f fabric) detach(host string) error {
	return lab.IP("-n " + string(f.hub()) + " link delete " + host)
}

// forwards makes a host pass packets on.
func forwards(n lab.Namespace) error {
	return n.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
}

// sweep removes namespaces with the processes in them, and control groups; all
// that begin with start.
func sweep(start string) error {
	return errors.Join(lab.Sweep(start), removeGroups(start))
}
