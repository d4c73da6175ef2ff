package kube

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// someFacts are those of the golden files.
func someFacts() Facts {
	return Facts{
		Mesh: "mesh-aaaaaaaaaaaaaaaa", Cluster: "kube-bbbbbbbbbbbbbbbb", Namespace: DefaultNamespace,
		Root: strings.Repeat("0f", 32),
		Mgmt: []string{"mgmt2.example.net:8443", "192.0.2.1:8443"},
		Allow: []netip.AddrPort{
			netip.MustParseAddrPort("198.51.100.7:7443"), netip.MustParseAddrPort("192.0.2.2:8443"),
			netip.MustParseAddrPort("192.0.2.1:8443"), netip.MustParseAddrPort("[2001:db8::7]:7443"),
			netip.MustParseAddrPort("192.0.2.1:8443"),
		},
		Epoch: Epoch{Mesh: 1, Leader: 42},
	}
}

func someLayer() mesh.EntryLayer { return mesh.EntryLayer{Image: "registry.example.net/meshctl:1.2"} }

func render(t *testing.T, l mesh.EntryLayer, f Facts) []Object {
	t.Helper()
	out, err := Render(mesh.EntryRelease{Number: 3, Pods: 3, Layer: l}, f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// K-02: the grace of the pod clips the drain of the process.
func TestGraceIsLongerThanTheDrain(t *testing.T) {
	l := someLayer()
	l.DrainWait, l.DrainLimit = mesh.Duration(15500*time.Millisecond), mesh.Duration(600*time.Second)
	pod := find[appsv1.Deployment](t, render(t, l, someFacts()), "Deployment").Spec.Template.Spec
	if got := *pod.TerminationGracePeriodSeconds; got != 626 {
		t.Errorf("grace %d s; want 16 + 600 + 10", got)
	}
	if c := pod.Containers[0]; c.Lifecycle != nil {
		t.Error("a hook takes its time from the drain")
	}
}

// K-01: a rolling update that takes a pod away before another serves.
func TestRollingUpdatesNeverTakeCapacity(t *testing.T) {
	d := find[appsv1.Deployment](t, render(t, someLayer(), someFacts()), "Deployment").Spec
	if u := d.Strategy.RollingUpdate; u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.String() == "0" {
		t.Errorf("deployment: %v", u)
	}
	l := someLayer()
	l.Kind = mesh.EntryDaemonSet
	s := find[appsv1.DaemonSet](t, render(t, l, someFacts()), "DaemonSet").Spec
	if u := s.UpdateStrategy.RollingUpdate; u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.String() == "0" {
		t.Errorf("daemonset: %v", u)
	}
}

// K-04, K-07: what a pod has, and what it lives by.
func TestPodsHaveNothingButTheirOwn(t *testing.T) {
	pod := find[appsv1.Deployment](t, render(t, someLayer(), someFacts()), "Deployment").Spec.Template.Spec
	if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks || pod.HostNetwork {
		t.Error("a pod has the token of its account, the services' variables or the node's network")
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil || v.Secret != nil {
			t.Errorf("volume %s is of the node, or a secret", v.Name)
		}
		if v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory {
			t.Errorf("volume %s is on the node's disk", v.Name)
		}
	}
	c := pod.Containers[0]
	if c.LivenessProbe.HTTPGet.Path != "/healthz" {
		t.Error("a pod must not be ended because of management")
	}
	if !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot {
		t.Error("not restricted")
	}
}

func TestAnAutoscalerHasTheNumberAlone(t *testing.T) {
	l := someLayer()
	l.Autoscale = mesh.EntryAutoscale{Max: 4}
	d := find[appsv1.Deployment](t, render(t, l, someFacts()), "Deployment")
	if d.Spec.Replicas != nil {
		t.Errorf("replicas %d; want none", *d.Spec.Replicas)
	}
}

func TestPolicyNamesEachAddressOnce(t *testing.T) {
	f := someFacts()
	f.Allow = append(f.Allow, netip.MustParseAddrPort("[::ffff:192.0.2.1]:8443"), netip.MustParseAddrPort("192.0.2.1:7443"))
	p := find[networkingv1.NetworkPolicy](t, render(t, someLayer(), f), "NetworkPolicy").Spec
	seen := make(map[string]int)
	for _, rule := range p.Egress {
		for _, to := range rule.To {
			if to.IPBlock == nil {
				continue
			}
			for _, port := range rule.Ports {
				seen[to.IPBlock.CIDR+" "+port.Port.String()]++
			}
		}
	}
	want := map[string]int{
		"192.0.2.1/32 8443": 1, "192.0.2.1/32 7443": 1, "192.0.2.2/32 8443": 1,
		"198.51.100.7/32 7443": 1, "2001:db8::7/128 7443": 1,
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("egress %v; want %v", seen, want)
	}
	if len(p.Ingress) != 1 || len(p.Ingress[0].Ports) != 1 || p.Ingress[0].Ports[0].Port.String() != clientsPort {
		t.Errorf("ingress %v; want clients alone", p.Ingress)
	}
}

// An egress rule without addresses would allow every one.
func TestPolicyOfNoAddressesAllowsNames(t *testing.T) {
	f := someFacts()
	f.Allow = nil
	p := find[networkingv1.NetworkPolicy](t, render(t, someLayer(), f), "NetworkPolicy").Spec
	if len(p.Egress) != 1 || len(p.Egress[0].To) != 1 || p.Egress[0].To[0].PodSelector == nil {
		t.Errorf("egress %v; want DNS alone", p.Egress)
	}
}

func TestWhatIsRenderedDoesNotDependOnOrder(t *testing.T) {
	a, b := someFacts(), someFacts()
	for i, j := 0, len(b.Allow)-1; i < j; i, j = i+1, j-1 {
		b.Allow[i], b.Allow[j] = b.Allow[j], b.Allow[i]
	}
	b.Mgmt = []string{b.Mgmt[1], b.Mgmt[0], b.Mgmt[1]}
	if one, other := render(t, someLayer(), a), render(t, someLayer(), b); !reflect.DeepEqual(one, other) {
		t.Errorf("%v\n%v", one, other)
	}
}

// What rolls pods is in their template; addresses and the epoch must not be.
func TestAddressesAndEpochsRollNothing(t *testing.T) {
	a, b := someFacts(), someFacts()
	b.Mgmt, b.Allow, b.Epoch = []string{"192.0.2.9:8443"}, nil, Epoch{2, 1}
	one := find[appsv1.Deployment](t, render(t, someLayer(), a), "Deployment").Spec.Template
	other := find[appsv1.Deployment](t, render(t, someLayer(), b), "Deployment").Spec.Template
	if !reflect.DeepEqual(one, other) {
		t.Errorf("%v\n%v", one, other)
	}
}

func TestFaultsOfFactsAreNamedTogether(t *testing.T) {
	_, err := Render(mesh.EntryRelease{Number: 1, Pods: 1, Layer: mesh.EntryLayer{Image: "no image"}}, Facts{
		Mesh: "x", Cluster: "y", Namespace: "default", Root: "short", Mgmt: []string{"nowhere"},
		Allow: []netip.AddrPort{{}},
	})
	if !errors.Is(err, mesh.ErrInvalid) {
		t.Fatalf("%v; want ErrInvalid", err)
	}
	for _, word := range []string{"no image", `"x"`, `"y"`, "default", "short", "nowhere", "ip:port"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v\ndoes not name %s", err, word)
		}
	}
}

func TestEpochs(t *testing.T) {
	for _, e := range []Epoch{{}, {1, 42}, {2, 0}} {
		if got, err := ParseEpoch(e.String()); err != nil || got != e {
			t.Errorf("%v: %v, %v", e, got, err)
		}
	}
	for _, s := range []string{"", "1", "1.", ".1", "1.2.3", "-1.2", "01.2", "a.b", "1.99999999999999999999"} {
		if e, err := ParseEpoch(s); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%q: %v, %v; want ErrInvalid", s, e, err)
		}
	}
	ordered := []Epoch{{1, 9}, {2, 1}, {2, 2}}
	for i, a := range ordered {
		for j, b := range ordered {
			if a.Before(b) != (i < j) {
				t.Errorf("%v before %v: %v", a, b, a.Before(b))
			}
		}
	}
}
