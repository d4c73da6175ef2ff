package mesh

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// Sources of an address.
const (
	AddressBalancer = "loadbalancer"
	AddressNode     = "nodeport"
	AddressPublic   = "public"
	AddressName     = "name" // Service.Name: up while it leads to an address that is
)

// MaxKubeAddresses bounds how many addresses of a cluster are looked at and told:
// every one of them is in every document of a client, for each of its cells.
const MaxKubeAddresses = 32

// HostPort is what clients dial.
func (a KubeAddress) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// Addresses are what may lead to the entries of the layer, when the cluster says
// found: Public instead where that is set, and Name besides. Whether they do is
// not known.
func (l EntryLayer) Addresses(found []KubeAddress) []KubeAddress {
	port := l.port(found)
	if len(l.Service.Public) > 0 {
		found = nil
		for _, p := range l.Service.Public {
			found = append(found, publicAddress(p, port))
		}
	}
	var out []KubeAddress
	for _, a := range found {
		if dialable(a.Host) && a.Port > 0 {
			out = append(out, KubeAddress{Host: a.Host, Port: a.Port, Source: a.Source})
		}
	}
	slices.SortFunc(out, compareAddress)
	out = slices.CompactFunc(out, func(a, b KubeAddress) bool { return a.Host == b.Host && a.Port == b.Port })
	out = out[:min(len(out), MaxKubeAddresses)]
	if l.Service.Name == "" || len(out) == 0 {
		return out
	}
	return append(out, KubeAddress{Host: l.Service.Name, Port: out[0].Port, Source: AddressName})
}

// dialable: a cluster may say what it likes, and servers are to dial it. What leads
// back to the machine itself is for tests of a mesh on one.
func dialable(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast()
	}
	_, err := ParseServerName(host)
	return err == nil
}

// port is what clients dial at an address that does not say so; 0: not known yet.
func (l EntryLayer) port(found []KubeAddress) int {
	for _, a := range found {
		if a.Port > 0 {
			return a.Port
		}
	}
	if l.Service.Type == ServiceNodePort {
		return l.Service.NodePort
	}
	return l.Service.Port
}

// publicAddress reads host or host:port; an IPv6 address may be without brackets.
func publicAddress(text string, port int) KubeAddress {
	a := KubeAddress{Host: text, Port: port, Source: AddressPublic}
	if host, p, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(p, 10, 16); err == nil {
			a.Host, a.Port = host, int(n)
		}
	}
	return a
}

func compareAddress(a, b KubeAddress) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
}

// Told are the addresses that clients are told of a cluster in this state: its
// name while that leads to entries, else those that answer. When none does and
// pods are ready, all of them: then it may be the look at them that is wrong.
func (k KubeCluster) Told(s KubeState) []KubeAddress {
	if k.Wanted.Number == 0 || k.Removing {
		return nil
	}
	var up, all []KubeAddress
	for _, a := range s.Addresses {
		switch {
		case a.Source == AddressName && a.Up:
			return []KubeAddress{a}
		case a.Source == AddressName:
			continue
		case a.Up:
			up = append(up, a)
		}
		all = append(all, a)
	}
	if len(up) == 0 && s.Counted().Ready > 0 {
		return all
	}
	return up
}

// Kubes are the clusters of a mesh, and how they are.
type Kubes struct {
	Clusters map[KubeID]KubeCluster
	States   map[KubeID]KubeState
}

// sorted are the clusters by name, so that lists keep their order.
func (k Kubes) sorted() []KubeCluster {
	return slices.SortedFunc(maps.Values(k.Clusters), func(a, b KubeCluster) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
}

// Known are host:port of everything that leads to entries in clusters, whether it
// answers or not.
func (k Kubes) Known() []string {
	var out []string
	for _, c := range k.sorted() {
		if c.Wanted.Number == 0 {
			continue
		}
		for _, a := range k.States[c.ID].Addresses {
			out = append(out, a.HostPort())
		}
	}
	return out
}

// Names are the DNS names of clusters, and the hosts to which each should lead.
// Clusters may share one.
func (k Kubes) Names() map[string][]string {
	out := map[string][]string{}
	for _, c := range k.sorted() {
		name := c.Wanted.Layer.Service.Name
		if name == "" || c.Wanted.Number == 0 || c.Removing {
			continue
		}
		hosts := out[name]
		for _, a := range k.States[c.ID].Addresses {
			if a.Source != AddressName {
				hosts = append(hosts, a.Host)
			}
		}
		out[name] = distinct(hosts)
	}
	return out
}

// WithKubes is c with the addresses of entries in clusters behind its own, as
// clients are to dial them. When no address at all would be told, all that are
// known are: worse than none they cannot be.
func (c Config) WithKubes(k Kubes) Config {
	if len(k.Clusters) == 0 {
		return c
	}
	all := slices.Clone(c.EntryAddresses)
	for _, cluster := range k.sorted() {
		for _, a := range cluster.Told(k.States[cluster.ID]) {
			all = append(all, a.HostPort())
		}
	}
	if len(all) == 0 {
		all = k.Known()
	}
	c.EntryAddresses = distinct(all)
	return c
}

// distinct keeps the first of each.
func distinct(all []string) []string {
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(s string) bool {
		had := seen[s]
		seen[s] = true
		return had
	})
}
