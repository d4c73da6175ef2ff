package mesh

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAnEntryLayerNeedsAnImageAlone(t *testing.T) {
	l := EntryLayer{Image: "registry.example.net/meshctl:1.2"}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	full := l.WithDefaults()
	if full.Replicas != 2 || full.Kind != EntryDeployment || full.Service.Port != 443 || time.Duration(full.DrainLimit) != 10*time.Minute {
		t.Errorf("%+v", full)
	}
	if again := full.WithDefaults(); again.Validate() != nil || again.Replicas != full.Replicas {
		t.Errorf("defaults of defaults: %+v", again)
	}
	l.Autoscale.Max = 5
	if full = l.WithDefaults(); full.Replicas != 0 || full.Autoscale != (EntryAutoscale{Min: 2, Max: 5, CPU: 70}) {
		t.Errorf("%+v", full)
	}
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	l = EntryLayer{Image: "meshctl", Kind: EntryDaemonSet}
	if full = l.WithDefaults(); full.Replicas != 0 || l.Validate() != nil {
		t.Errorf("%+v: %v", full, l.Validate())
	}
}

func TestFaultsOfAnEntryLayerAreNamed(t *testing.T) {
	many := make(map[string]string)
	for i := range 65 {
		many[strings.Repeat("a", i+1)] = "x"
	}
	for want, change := range map[string]func(*EntryLayer){
		`image ""`:           func(l *EntryLayer) { l.Image = "" },
		`image "Meshctl:1"`:  func(l *EntryLayer) { l.Image = "Meshctl:1" },
		`image "a b"`:        func(l *EntryLayer) { l.Image = "a b" },
		`image "a@sha256:1"`: func(l *EntryLayer) { l.Image = "a@sha256:1" },
		`image "https://a/b`: func(l *EntryLayer) { l.Image = "https://a/b" },
		"pullSecret":         func(l *EntryLayer) { l.PullSecret = "A" },
		"kind":               func(l *EntryLayer) { l.Kind = "pod" },
		"replicas -1":        func(l *EntryLayer) { l.Replicas = -1 },
		"replicas 1001":      func(l *EntryLayer) { l.Replicas = 1001 },
		"the autoscaler decides": func(l *EntryLayer) {
			l.Replicas, l.Autoscale.Max = 3, 4
		},
		"replicas 3: a daemonset": func(l *EntryLayer) { l.Kind, l.Replicas = EntryDaemonSet, 3 },
		"autoscale: a daemonset":  func(l *EntryLayer) { l.Kind, l.Autoscale.Max = EntryDaemonSet, 3 },
		"autoscale: min 2, max 1": func(l *EntryLayer) { l.Autoscale.Max = 1 },
		"autoscale: min 2, max 0": func(l *EntryLayer) { l.Autoscale.CPU = 50 },
		"cpu 1001":                func(l *EntryLayer) { l.Autoscale = EntryAutoscale{Max: 2, CPU: 1001} },
		"service.type":            func(l *EntryLayer) { l.Service.Type = "clusterip" },
		"of type nodeport has none": func(l *EntryLayer) {
			l.Service.Type, l.Service.Class = ServiceNodePort, "a"
		},
		"service.class \"a/b/c\"": func(l *EntryLayer) { l.Service.Class = "a/b/c" },
		"service.port 65536":      func(l *EntryLayer) { l.Service.Port = 65536 },
		"service.nodePort -1":     func(l *EntryLayer) { l.Service.NodePort = -1 },
		"annotations \"a b\"":     func(l *EntryLayer) { l.Service.Annotations = map[string]string{"a b": ""} },
		"not for people":          func(l *EntryLayer) { l.Service.Annotations = map[string]string{"meshctl.io/epoch": "9.9"} },
		"control character":       func(l *EntryLayer) { l.Service.Annotations = map[string]string{"a": "b\u0085"} },
		"annotations of 16385": func(l *EntryLayer) {
			l.Service.Annotations = map[string]string{"a": strings.Repeat("b", 16<<10)}
		},
		"proxies 10.0.0.1/8":  func(l *EntryLayer) { l.Service.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")} },
		"say to be anybody":   func(l *EntryLayer) { l.Service.Proxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} },
		"dns 10.96.0.10/8":    func(l *EntryLayer) { l.DNS = []netip.Prefix{netip.MustParsePrefix("10.96.0.10/8")} },
		"reach anybody there": func(l *EntryLayer) { l.DNS = []netip.Prefix{netip.MustParsePrefix("::/0")} },
		"wants it as IPv4":    func(l *EntryLayer) { l.DNS = []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")} },
		"dns has 65 ranges":   func(l *EntryLayer) { l.DNS = make([]netip.Prefix, 65) },
		"service.proxies has": func(l *EntryLayer) { l.Service.Proxies = make([]netip.Prefix, 65) },
		`public "a b"`:        func(l *EntryLayer) { l.Service.Public = []string{"a b"} },
		`public "1.2.3.4:0"`:  func(l *EntryLayer) { l.Service.Public = []string{"1.2.3.4:0"} },
		`public "fe80::1%e"`:  func(l *EntryLayer) { l.Service.Public = []string{"fe80::1%e"} },
		`name "Entry.net"`:    func(l *EntryLayer) { l.Service.Name = "Entry.net" },
		`resources.cpu "0"`:   func(l *EntryLayer) { l.Resources.CPU = "0" },
		`resources.memory "a`: func(l *EntryLayer) { l.Resources.Memory = "a" },
		"no more than":        func(l *EntryLayer) { l.Resources.Memory = "513Mi" },
		"at least 64Mi":       func(l *EntryLayer) { l.Resources.Memory, l.Resources.MemoryLimit = "1Mi", "32Mi" },
		"limits.hellos -1":    func(l *EntryLayer) { l.Limits.Hellos = -1 },
		"drainWait 11m0s":     func(l *EntryLayer) { l.DrainWait, l.Deadline = Duration(11*time.Minute), Duration(time.Hour) },
		"drainLimit -1s":      func(l *EntryLayer) { l.DrainLimit = Duration(-time.Second) },
		"deadline 1s":         func(l *EntryLayer) { l.Deadline = Duration(time.Second) },
		"5s more than":        func(l *EntryLayer) { l.DrainWait = Duration(5 * time.Minute) },
		"unavailable -1":      func(l *EntryLayer) { l.Unavailable = -1 },
		"priorityClass":       func(l *EntryLayer) { l.PriorityClass = "a_b" },
		"nodeSelector has 65": func(l *EntryLayer) { l.NodeSelector = many },
		`nodeSelector "-"`:    func(l *EntryLayer) { l.NodeSelector = map[string]string{"-": ""} },
		`nodeSelector a: "/"`: func(l *EntryLayer) { l.NodeSelector = map[string]string{"a": "/"} },
		`toleration "-"`:      func(l *EntryLayer) { l.Tolerations = []EntryToleration{{Key: "-"}} },
		`toleration ""`:       func(l *EntryLayer) { l.Tolerations = []EntryToleration{{Value: "a"}} },
		`value "/"`:           func(l *EntryLayer) { l.Tolerations = []EntryToleration{{Key: "a", Value: "/"}} },
		`effect "Never"`:      func(l *EntryLayer) { l.Tolerations = []EntryToleration{{Key: "a", Effect: "Never"}} },
		"65 tolerations":      func(l *EntryLayer) { l.Tolerations = make([]EntryToleration, 65) },
		"logLevel":            func(l *EntryLayer) { l.LogLevel = "loud" },
	} {
		l := EntryLayer{Image: "registry.example.net/meshctl:1.2"}
		change(&l)
		if err := l.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want … %s …", err, want)
		}
	}
}

func TestTheClassOfABalancerStays(t *testing.T) {
	one, other, none := EntryLayer{Image: "a"}, EntryLayer{Image: "a"}, EntryLayer{Image: "a"}
	one.Service.Class, other.Service.Class = "a", "b"
	nodes := EntryLayer{Image: "a", Service: EntryService{Type: ServiceNodePort}}
	for _, x := range []struct {
		was, is EntryLayer
		ok      bool
	}{
		{EntryLayer{}, one, true}, {one, one, true}, {one, nodes, true}, {nodes, other, true},
		{one, other, false}, {one, none, false}, {none, one, false},
	} {
		if err := x.is.After(x.was); (err == nil) != x.ok || !x.ok && !errors.Is(err, ErrConflict) {
			t.Errorf("%q after %q: %v", x.is.Service.Class, x.was.Service.Class, err)
		}
	}
}

func TestImages(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0f", 32)
	for _, s := range []string{"meshctl", "meshctl:1", "a/b/c:v1.2-x", "localhost:5000/a", "Registry.Example.net/a_b/c--d", "a" + digest, "10.0.0.1:5000/a:1" + digest} {
		if err := (EntryLayer{Image: s}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestQuantities(t *testing.T) {
	for s, want := range map[string]int64{
		"1": 1000, "250m": 250, "0.5": 500, "0.0001": 1, "1k": 1e6, "1Ki": 1024e3, "1.5Gi": 1536 << 20 * 1000, "512Mi": 512 << 20 * 1000,
	} {
		if got, err := ParseQuantity(s); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "m", "-1", "+1", "1 Gi", "1e3", "1Xi", ".5", "5.", "9999999999999", "99999999Pi", "1\n"} {
		if got, err := ParseQuantity(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %d, %v; want ErrInvalid", s, got, err)
		}
	}
}

func TestNamesOfClustersAndNamespaces(t *testing.T) {
	for _, s := range []string{"eu1", "a", "eu-west-1"} {
		if err := errors.Join(CheckKubeName(s), CheckNamespace(s)); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []string{"", "EU", "a.b", "-a", "a/b", strings.Repeat("a", 64)} {
		if !errors.Is(CheckKubeName(s), ErrInvalid) || !errors.Is(CheckNamespace(s), ErrInvalid) {
			t.Errorf("%q passes", s)
		}
	}
	if CheckKubeName(string(NewKubeID())) == nil {
		t.Error("an id is a name")
	}
	for _, s := range []string{"default", "kube-system"} {
		if !errors.Is(CheckNamespace(s), ErrInvalid) {
			t.Errorf("%q passes", s)
		}
	}
}
