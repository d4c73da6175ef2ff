package kube

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// golden compares text with a file below testdata; UPDATE=1 writes it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s is not what was made; look at it, then UPDATE=1 go test ./pkg/kube\n%s", file, text)
	}
}

// typed are the types of Kubernetes' own API that the objects must fit.
func typed(kind string) any {
	switch kind {
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "ConfigMap":
		return &corev1.ConfigMap{}
	case "Service":
		return &corev1.Service{}
	case "Namespace":
		return &corev1.Namespace{}
	case "Deployment":
		return &appsv1.Deployment{}
	case "DaemonSet":
		return &appsv1.DaemonSet{}
	case "PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "HorizontalPodAutoscaler":
		return &autoscalingv2.HorizontalPodAutoscaler{}
	case "NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "PriorityClass":
		return &schedulingv1.PriorityClass{}
	case "Role":
		return &rbacv1.Role{}
	case "RoleBinding":
		return &rbacv1.RoleBinding{}
	case "ClusterRole":
		return &rbacv1.ClusterRole{}
	case "ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	}
	return nil
}

// decode reads an object as Kubernetes' own types do, and refuses unknown fields.
func decode(t *testing.T, o Object) any {
	t.Helper()
	text, err := YAML([]Object{o})
	if err != nil {
		t.Fatal(err)
	}
	into := typed(o.Kind())
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", o.Ref(), err)
	}
	return into
}

func find[T any](t *testing.T, objects []Object, kind string) *T {
	t.Helper()
	for _, o := range objects {
		if o.Kind() == kind {
			return decode(t, o).(*T)
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

// variants are layers that differ in what objects there are and what is in them.
func variants() map[string]mesh.EntryLayer {
	least := someLayer()
	most := mesh.EntryLayer{
		Image:      "registry.example.net:5000/meshctl/meshctl:1.2@sha256:0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
		PullSecret: "registry",
		Autoscale:  mesh.EntryAutoscale{Min: 3, Max: 12, CPU: 60},
		Service: mesh.EntryService{
			Type: mesh.ServiceLoadBalancer, Class: "example.net/public", Port: 8443, NodePort: 31443,
			Annotations: map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": "external", "example.net/yes": "y"},
			Proxies:     []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
			Public:      []string{"203.0.113.5", "entry.example.net:8443"}, Name: "entry.example.net",
		},
		Resources:     mesh.EntryResources{CPU: "0.5", Memory: "256Mi", MemoryLimit: "1Gi"},
		Limits:        mesh.EntryLimits{Connections: 20000, PerSource: 200, Hellos: 2000},
		DrainWait:     mesh.Duration(1500 * time.Millisecond),
		DrainLimit:    mesh.Duration(90 * time.Second),
		Deadline:      mesh.Duration(2 * time.Minute),
		Unavailable:   2,
		PriorityClass: "edge",
		NodeSelector:  map[string]string{"example.net/role": "edge"},
		Tolerations:   []mesh.EntryToleration{{Key: "edge", Value: "yes", Effect: "NoSchedule"}, {Key: "spot"}, {Effect: "NoExecute"}},
		DNS:           []netip.Prefix{netip.MustParsePrefix("169.254.20.10/32"), netip.MustParsePrefix("10.128.0.0/14")},
		LogLevel:      "debug",
	}
	nodes := someLayer()
	nodes.Kind = mesh.EntryDaemonSet
	nodes.Service.Type, nodes.Service.NodePort = mesh.ServiceNodePort, 30443
	open := someLayer()
	open.OpenNetwork = true
	return map[string]mesh.EntryLayer{"least": least, "most": most, "daemonset": nodes, "open": open}
}

func TestEveryVariantIsItsGoldenFileAndFitsTheTypesOfKubernetes(t *testing.T) {
	for name, layer := range variants() {
		for _, paused := range []bool{false, true} {
			f := someFacts()
			if f.Paused = paused; paused {
				name += "-paused"
			}
			t.Run(name, func(t *testing.T) {
				objects := render(t, layer, f)
				for _, o := range objects {
					decode(t, o)
				}
				text, err := YAML(objects)
				if err != nil {
					t.Fatal(err)
				}
				golden(t, "render/"+name+".yaml", text)
			})
		}
	}
}

func TestRightsAreTheirGoldenFile(t *testing.T) {
	objects, err := RBAC("")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		decode(t, o)
	}
	text, err := YAML(objects)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rbac.yaml", text)
}
