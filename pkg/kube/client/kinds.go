package client

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// A kind is one sort of objects that there may be of ours.
type kind struct {
	name string // as in "kind" of objects
	api  schema.GroupVersionResource
	made bool // by controllers of the cluster: only watched
}

// kinds are in the order of applying.
var kinds = []kind{
	{name: "ServiceAccount", api: schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}},
	{name: "ConfigMap", api: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}},
	{name: "NetworkPolicy", api: schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}},
	{name: "PodDisruptionBudget", api: schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}},
	{name: "Service", api: schema.GroupVersionResource{Version: "v1", Resource: "services"}},
	{name: "Deployment", api: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}},
	{name: "DaemonSet", api: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}},
	{name: "HorizontalPodAutoscaler", api: schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}},
	{name: "Pod", api: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, made: true},
}

func kindOfName(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// rank orders objects for applying; the unknown come last.
func rank(name string) int {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name }); i >= 0 {
		return i
	}
	return len(kinds)
}

// of is the resource of a kind in the cluster.
func (c *conn) of(k kind) dynamic.ResourceInterface {
	return c.Resource(k.api).Namespace(c.namespace)
}
