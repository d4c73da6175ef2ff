package kube

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func port(n int) string { return ":" + strconv.Itoa(n) }

func service(l mesh.EntryLayer, f Facts) Object {
	clients := map[string]any{"name": clientsPort, "port": l.Service.Port, "targetPort": clientsPort, "protocol": "TCP"}
	if l.Service.NodePort != 0 {
		clients["nodePort"] = l.Service.NodePort
	}
	spec := map[string]any{
		"type":     "NodePort",
		"selector": selector(f.Mesh, f.Cluster),
		"ports":    []any{clients},
		// Clients keep their addresses, and no node is asked that has no pod.
		"externalTrafficPolicy": "Local",
		"ipFamilyPolicy":        "PreferDualStack",
	}
	if l.Service.Type == mesh.ServiceLoadBalancer {
		spec["type"] = "LoadBalancer"
	}
	if l.Service.Class != "" {
		spec["loadBalancerClass"] = l.Service.Class
	}
	return object("v1", "Service", f).add("annotations", l.Service.Annotations).with("spec", spec)
}

// networkPolicy forbids everything but clients on their port, the mesh and names.
// A node always reaches the pods on it, so probes need no rule.
func networkPolicy(l mesh.EntryLayer, f Facts) Object {
	egress := append(allowed(f.Allow), map[string]any{
		"to": []any{map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]string{"kubernetes.io/metadata.name": "kube-system"}},
			"podSelector":       map[string]any{"matchLabels": map[string]string{"k8s-app": "kube-dns"}},
		}},
		"ports": []any{policyPort("UDP", 53), policyPort("TCP", 53)},
	})
	if len(l.DNS) > 0 {
		// A cache of the node answers on 53, the resolvers of OpenShift on 5353.
		egress = append(egress, map[string]any{"to": blocks(l.DNS), "ports": []any{
			policyPort("UDP", 53), policyPort("TCP", 53), policyPort("UDP", 5353), policyPort("TCP", 5353),
		}})
	}
	return object("networking.k8s.io/v1", "NetworkPolicy", f).with("spec", map[string]any{
		"podSelector": map[string]any{"matchLabels": selector(f.Mesh, f.Cluster)},
		"policyTypes": []any{"Ingress", "Egress"},
		"ingress":     []any{map[string]any{"ports": []any{map[string]any{"protocol": "TCP", "port": clientsPort}}}},
		"egress":      egress,
	})
}

func policyPort(protocol string, n uint16) map[string]any {
	return map[string]any{"protocol": protocol, "port": int64(n)}
}

// allowed has one rule for all addresses with the same ports.
func allowed(in []netip.AddrPort) []any {
	ports := make(map[netip.Addr][]uint16)
	for _, a := range in {
		ip := a.Addr().Unmap().WithZone("")
		if !slices.Contains(ports[ip], a.Port()) {
			ports[ip] = append(ports[ip], a.Port())
		}
	}
	type group struct {
		ports []uint16
		ips   []netip.Addr
	}
	groups := make(map[string]*group)
	for ip, p := range ports {
		slices.Sort(p)
		key := fmt.Sprint(p)
		if groups[key] == nil {
			groups[key] = &group{ports: p}
		}
		groups[key].ips = append(groups[key].ips, ip)
	}
	var sorted []*group
	for _, g := range groups {
		slices.SortFunc(g.ips, netip.Addr.Compare)
		sorted = append(sorted, g)
	}
	slices.SortFunc(sorted, func(a, b *group) int { return cmp.Or(slices.Compare(a.ports, b.ports), a.ips[0].Compare(b.ips[0])) })
	var rules []any
	for _, g := range sorted {
		rules = append(rules, rule(g.ips, g.ports))
	}
	return rules
}

func blocks(ranges []netip.Prefix) []any {
	out := make([]any, len(ranges))
	for i, r := range ranges {
		out[i] = map[string]any{"ipBlock": map[string]any{"cidr": r.String()}}
	}
	return out
}

func rule(ips []netip.Addr, ports []uint16) map[string]any {
	ranges, through := make([]netip.Prefix, len(ips)), make([]any, len(ports))
	for i, ip := range ips {
		ranges[i] = netip.PrefixFrom(ip, ip.BitLen())
	}
	for i, p := range ports {
		through[i] = policyPort("TCP", p)
	}
	return map[string]any{"to": blocks(ranges), "ports": through}
}
