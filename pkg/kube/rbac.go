package kube

import "github.com/meshctl/meshctl/pkg/mesh"

// rights are what management does in a namespace. The namespace itself, which keeps
// pods restricted, is not its to change.
var rights = []struct {
	group     string
	resources []string
	verbs     []string
}{
	{"", []string{"configmaps", "serviceaccounts", "services"}, kept},
	{"apps", []string{"daemonsets", "deployments"}, kept},
	{"autoscaling", []string{"horizontalpodautoscalers"}, kept},
	{"networking.k8s.io", []string{"networkpolicies"}, kept},
	{"policy", []string{"poddisruptionbudgets"}, kept},
	{"", []string{"pods"}, seen},
	{"", []string{"pods/log"}, []string{"get"}},
	{"", []string{"events"}, []string{"list"}},
}

// An object that is applied is created and patched; what else is there is deleted.
var (
	kept = []string{"get", "list", "watch", "create", "patch", "delete"}
	seen = []string{"get", "list", "watch"}
)

// RBAC makes what an operator applies once, before a cluster is added: the
// namespace, the account of management and what that may do. "" is the default
// namespace. It returns ErrInvalid.
func RBAC(namespace string) ([]Object, error) {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	if err := mesh.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	account := []any{map[string]any{"kind": "ServiceAccount", "name": Account, "namespace": namespace}}
	reviewer := Account + ":" + namespace
	return plainAll([]Object{
		cluster("v1", "Namespace", namespace).add("labels", podSecurity()),
		cluster("scheduling.k8s.io/v1", "PriorityClass", PriorityClass).
			with("value", 1_000_000).
			with("description", "Entries of a mesh: what clients connect to."),
		within("v1", "ServiceAccount", namespace).with("automountServiceAccountToken", false),
		within("rbac.authorization.k8s.io/v1", "Role", namespace).with("rules", roleRules(namespace)),
		within("rbac.authorization.k8s.io/v1", "RoleBinding", namespace).
			with("roleRef", roleRef("Role", Account)).with("subjects", account),
		// Whether a token is of a pod can be asked for the whole cluster only.
		cluster("rbac.authorization.k8s.io/v1", "ClusterRole", reviewer).
			with("rules", []any{right("authentication.k8s.io", []string{"tokenreviews"}, []string{"create"})}),
		cluster("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", reviewer).
			with("roleRef", roleRef("ClusterRole", reviewer)).with("subjects", account),
	})
}

func roleRules(namespace string) []any {
	var out []any
	for _, r := range rights {
		out = append(out, right(r.group, r.resources, r.verbs))
	}
	own := right("", []string{"namespaces"}, []string{"get"})
	own["resourceNames"] = []string{namespace}
	return append(out, own)
}

func right(group string, resources, verbs []string) map[string]any {
	return map[string]any{"apiGroups": []string{group}, "resources": resources, "verbs": verbs}
}

func roleRef(kind, name string) map[string]any {
	return map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
}

// The label by which a namespace refuses pods that want more than entries do, and
// its value, as "Pod Security Standards" of Kubernetes names them.
const (
	LabelPodSecurity = "pod-security.kubernetes.io/enforce"
	PodSecurity      = "restricted"
)

func podSecurity() map[string]string {
	return map[string]string{
		LabelPodSecurity:                   PodSecurity,
		"pod-security.kubernetes.io/audit": PodSecurity,
		"pod-security.kubernetes.io/warn":  PodSecurity,
	}
}

// cluster begins an object of no namespace, within one of the account's.
func cluster(apiVersion, kind, name string) Object {
	return Object{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
		"name": name, "labels": map[string]string{LabelPartOf: "meshctl"},
	}}
}

func within(apiVersion, kind, namespace string) Object {
	o := cluster(apiVersion, kind, Account)
	o["metadata"].(map[string]any)["namespace"] = namespace
	return o
}
