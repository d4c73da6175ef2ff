//go:build kube

package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// permit applies what `admin kube rbac` prints, as an operator does.
func (k *Kube) permit(t testing.TB, ns string) {
	t.Helper()
	objects, err := kube.RBAC(ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := k.admin.apply(t.Context(), object(o), "operator", ""); err != nil {
			t.Fatal(err)
		}
	}
}

// TestObjectsAreAccepted has the real API server look at everything that is
// rendered, with unknown fields refused and warnings counted as failures, as who
// may do no more than the printed rights (K-07).
func TestObjectsAreAccepted(t *testing.T) {
	k := theKube(t)
	const ns = "accepted"
	k.permit(t, ns)
	manager := k.account(t, ns, kube.Account)
	facts := kube.Facts{
		Mesh: "mesh-" + "aaaaaaaaaaaaaaaa", Cluster: "kube-" + "aaaaaaaaaaaaaaaa", Namespace: ns, Root: strings.Repeat("0f", 32),
		Mgmt: []string{"mgmt.example.net:8443"}, Allow: []netip.AddrPort{netip.MustParseAddrPort("203.0.113.11:8443")},
		Epoch: kube.Epoch{Mesh: 1, Leader: 1},
	}
	for name, layer := range map[string]mesh.EntryLayer{
		"as simple as can be": {Image: podImage},
		"one for each node":   {Image: podImage, Kind: mesh.EntryDaemonSet, Service: mesh.EntryService{Type: mesh.ServiceNodePort, NodePort: 30443}},
		"with everything": {
			Image: podImage, PullSecret: "pull", Autoscale: mesh.EntryAutoscale{Min: 2, Max: 10, CPU: 70}, PriorityClass: kube.PriorityClass,
			Service: mesh.EntryService{Class: balancerClass, Annotations: map[string]string{proxyAnnotation: "v2"},
				Proxies: []netip.Prefix{subnet}, Public: []string{"192.0.2.1"}, Name: "entry.example.net"},
			NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []mesh.EntryToleration{{Key: "edge", Value: "yes", Effect: "NoSchedule"}, {Key: "spare"}},
			Limits: mesh.EntryLimits{Connections: 1000, PerSource: 100, Hellos: 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := kube.Render(mesh.EntryRelease{Number: 1, Pods: 1, Layer: layer}, facts)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				if err := manager.apply(t.Context(), object(o), kube.FieldManager, "&dryRun=All&fieldValidation=Strict"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	k.dropNamespace(t, ns)
}

// TestRights compares what the accounts may do with what is kept, as `kubectl auth
// can-i --list` shows it: management no more than it needs, and pods nothing.
func TestRights(t *testing.T) {
	k := theKube(t)
	const ns = "rights"
	k.permit(t, ns)
	manager := k.rights(t, ns, k.account(t, ns, kube.Account))
	nobody := k.rights(t, ns, k.account(t, ns, "default"))
	other := k.rights(t, "default", k.account(t, ns, kube.Account))
	golden(t, "rights-of-management", strings.Join(without(manager, nobody), ""))
	golden(t, "rights-of-management-elsewhere", strings.Join(without(other, nobody), ""))
	if _, err := k.admin.create(t.Context(), "/api/v1/namespaces/"+ns+"/serviceaccounts", object{"metadata": object{"name": kube.Name}}); err != nil {
		t.Fatal(err)
	}
	if more := without(k.rights(t, ns, k.account(t, ns, kube.Name)), nobody); len(more) > 0 {
		t.Errorf("an entry may do more than an account without any rights:\n%s", more)
	}
	k.dropNamespace(t, ns)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what was found; look at it, then run with UPDATE=1:\n%s", file, got)
	}
}

// without are the lines of all that are not among some.
func without(all, some []string) []string {
	return slices.DeleteFunc(all, func(line string) bool { return slices.Contains(some, line) })
}

// rights are a line for each thing that somebody may do in a namespace.
func (k *Kube) rights(t testing.TB, ns string, who *api) []string {
	t.Helper()
	var out []string
	k.WaitFor(t, "rights are known", func() error {
		o, err := who.create(t.Context(), "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", object{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": object{"namespace": ns}})
		out = nil
		for _, rule := range o.list("status", "resourceRules") {
			out = append(out, fmt.Sprintf("%v %v %v: %v\n", rule.words("apiGroups"), rule.words("resources"), rule.words("resourceNames"), rule.words("verbs")))
		}
		return err
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// account is the API for a service account, once it is there.
func (k *Kube) account(t testing.TB, ns, name string) *api {
	t.Helper()
	var token string
	k.WaitFor(t, "a token for "+name, func() (err error) {
		token, err = k.admin.tokenOf(t.Context(), ns, name)
		return err
	})
	a, err := k.control.as(token)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (k *Kube) dropNamespace(t testing.TB, ns string) {
	t.Helper()
	if err := k.admin.delete(context.WithoutCancel(t.Context()), "/api/v1/namespaces/"+ns); err != nil {
		t.Fatal(err)
	}
}

// plurals are the resources of kinds.
var plurals = map[string]string{"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}

// pathOf is where an object is.
func pathOf(o object) string {
	prefix := "/apis/" + o.text("apiVersion")
	if o.text("apiVersion") == "v1" {
		prefix = "/api/v1"
	}
	if ns := o.text("metadata", "namespace"); ns != "" {
		prefix += "/namespaces/" + ns
	}
	plural := plurals[o.text("kind")]
	if plural == "" {
		plural = strings.ToLower(o.text("kind")) + "s"
	}
	return prefix + "/" + plural + "/" + o.text("metadata", "name")
}

// apply is server-side apply by a field manager, which forces nothing.
func (a *api) apply(ctx context.Context, o object, manager, options string) error {
	_, err := a.do(ctx, http.MethodPatch, pathOf(o)+"?fieldManager="+manager+options, "application/apply-patch+yaml", o)
	return err
}
