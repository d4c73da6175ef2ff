package kube

import (
	"errors"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// K-07: an account that can read every secret, or run commands in pods.
func TestRightsNameEverythingAndNoSecret(t *testing.T) {
	objects, err := RBAC("edge")
	if err != nil {
		t.Fatal(err)
	}
	rules := append(find[rbacv1.Role](t, objects, "Role").Rules, find[rbacv1.ClusterRole](t, objects, "ClusterRole").Rules...)
	forbidden := []string{"*", "secrets", "pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token", "roles", "rolebindings", "nodes", "impersonate", "escalate", "bind", "update", "deletecollection"}
	for _, r := range rules {
		for _, word := range slices.Concat(r.APIGroups, r.Resources, r.Verbs) {
			if slices.Contains(forbidden, word) {
				t.Errorf("%v", r)
			}
		}
	}
	if got := find[rbacv1.ClusterRole](t, objects, "ClusterRole").Rules; len(got) != 1 || !slices.Equal(got[0].Resources, []string{"tokenreviews"}) {
		t.Errorf("in the whole cluster: %v; want reviews of tokens alone", got)
	}
}

// Whatever a layer can be, the account must be able to keep it.
func TestRightsCoverWhatIsRendered(t *testing.T) {
	plural := map[string]string{
		"ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps", "Service": "services", "NetworkPolicy": "networkpolicies",
		"Deployment": "deployments", "DaemonSet": "daemonsets", "PodDisruptionBudget": "poddisruptionbudgets", "HorizontalPodAutoscaler": "horizontalpodautoscalers",
	}
	objects, err := RBAC("")
	if err != nil {
		t.Fatal(err)
	}
	role := find[rbacv1.Role](t, objects, "Role")
	used := make(map[string]bool)
	for _, layer := range variants() {
		for _, o := range render(t, layer, someFacts()) {
			used[plural[o.Kind()]] = true
		}
	}
	granted := make(map[string]bool)
	for _, r := range role.Rules {
		if slices.Contains(r.Verbs, "patch") {
			for _, name := range r.Resources {
				granted[name] = true
			}
		}
	}
	for name := range used {
		if !granted[name] {
			t.Errorf("%q is rendered, and may not be applied", name)
		}
	}
	for name := range granted {
		if !used[name] {
			t.Errorf("%q may be changed, and is never rendered", name)
		}
	}
}

func TestRightsAreForANamespaceOfItsOwn(t *testing.T) {
	for _, name := range []string{"default", "kube-system", "Edge", "a/b", "a b", "-"} {
		if _, err := RBAC(name); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%q: %v; want ErrInvalid", name, err)
		}
	}
}
