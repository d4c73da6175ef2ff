package client

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// addresses are where the cluster says that clients reach the pods.
func (s *session) addresses(pods []mesh.KubePod) []mesh.KubeAddress {
	list, _ := s.cache.list("Service")
	var out []mesh.KubeAddress
	for _, o := range list {
		if !s.isWanted(o) {
			continue
		}
		if kind, _, _ := unstructured.NestedString(o.Object, "spec", "type"); kind == "LoadBalancer" {
			out = append(out, balancerOf(o)...)
		} else {
			out = append(out, nodePorts(o, pods)...)
		}
	}
	return out
}

func balancerOf(o *unstructured.Unstructured) []mesh.KubeAddress {
	var out []mesh.KubeAddress
	ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, item := range ingress {
		at, _ := item.(map[string]any)
		host, _ := at["ip"].(string)
		if name, _ := at["hostname"].(string); host == "" {
			host = name
		}
		if host != "" {
			out = append(out, mesh.KubeAddress{Host: printable(host, 253), Port: portOf(o, "port"), Source: "loadbalancer"})
		}
	}
	return out
}

// nodePorts are those of the nodes with a pod that is ready: the others do not answer.
func nodePorts(o *unstructured.Unstructured, pods []mesh.KubePod) []mesh.KubeAddress {
	port := portOf(o, "nodePort")
	if port == 0 {
		return nil
	}
	var hosts []string
	for _, p := range pods {
		if p.Ready && !p.Ending && p.HostIP != "" {
			hosts = append(hosts, p.HostIP)
		}
	}
	slices.Sort(hosts)
	var out []mesh.KubeAddress
	for _, h := range slices.Compact(hosts) {
		out = append(out, mesh.KubeAddress{Host: h, Port: port, Source: "nodeport"})
	}
	return out
}

// portOf is a number of a Service's first port: there is only one.
func portOf(o *unstructured.Unstructured, field string) int {
	ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
	if len(ports) == 0 {
		return 0
	}
	first, _ := ports[0].(map[string]any)
	n, _, _ := unstructured.NestedInt64(first, field)
	return int(n)
}
