//go:build faults

package faults

import (
	"net/netip"

	"github.com/meshctl/meshctl/internal/lab"
)

// prefix marks network namespaces as the lab's, so that what a killed run left
// can be told from everybody else's.
const prefix = "mcfaults-"

// internet joins the hosts: a namespace with a bridge and the rules by which
// packets vanish on it.
const internet = lab.Namespace(prefix + "internet")

// subnet is where the hosts are: TEST-NET-3, which is nobody's.
var subnet = netip.MustParsePrefix("203.0.113.0/24")

// privateNet is the network among the management servers.
var privateNet = netip.MustParsePrefix("10.77.0.0/24")

// The rules see what passes the bridge and drop it without a word, both ways;
// ARP goes on, so that a cut looks like a black hole and not like a pulled plug.
const rules = `table bridge lab {
	set hosts { type ipv4_addr; }
	set pairs { type ipv4_addr . ipv4_addr; }
	chain cut {
		type filter hook forward priority 0; policy accept;
		ip saddr @hosts drop
		ip daddr @hosts drop
		ip saddr . ip daddr @pairs drop
	}
}
`

func makeInternet() error {
	name := string(internet)
	if err := lab.IP("netns add "+name, "-n "+name+" link add br0 up type bridge", "-n "+name+" link add br1 up type bridge"); err != nil {
		return err
	}
	return internet.Feed(rules, "nft", "-f", "-")
}

// attach makes a namespace for a host and joins it to the bridge.
func attach(name string, addr netip.Addr) (lab.Namespace, error) {
	n := lab.Namespace(prefix + name)
	if err := n.Make(); err != nil {
		return n, err
	}
	return n, n.Join(internet, "br0", name, "eth0", netip.PrefixFrom(addr, subnet.Bits()))
}

// attachPrivate gives a host an address on the servers' private network.
func attachPrivate(n lab.Namespace, name string, addr netip.Addr) error {
	return n.Join(internet, "br1", "p-"+name, "eth1", netip.PrefixFrom(addr, privateNet.Bits()))
}
