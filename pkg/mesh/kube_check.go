package mesh

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what is kept in a cluster.
const (
	maxPods        = 1000
	maxEntryList   = 64
	maxAnnotations = 16 << 10 // bytes, keys and values together
	maxEntryLimit  = 1_000_000
	maxDrainWait   = 10 * time.Minute
	maxDrainLimit  = 24 * time.Hour
	maxDeadline    = 24 * time.Hour
)

// WithDefaults is l with the meaning of each zero value.
func (l EntryLayer) WithDefaults() EntryLayer {
	set(&l.Kind, EntryDeployment)
	if l.Autoscale != (EntryAutoscale{}) {
		set(&l.Autoscale.Min, 2)
		set(&l.Autoscale.CPU, 70)
	} else if l.Kind == EntryDeployment {
		set(&l.Replicas, 2)
	}
	set(&l.Service.Type, ServiceLoadBalancer)
	set(&l.Service.Port, 443)
	set(&l.Resources.CPU, "100m")
	set(&l.Resources.Memory, "128Mi")
	set(&l.Resources.MemoryLimit, "512Mi")
	set(&l.DrainWait, Duration(30*time.Second))
	set(&l.DrainLimit, Duration(10*time.Minute))
	set(&l.Deadline, Duration(5*time.Minute))
	set(&l.Unavailable, 1)
	set(&l.PriorityClass, "meshctl-entry")
	set(&l.LogLevel, "info")
	return l
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// faults gathers what is wrong.
type faults []error

func (f *faults) add(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf("mesh: entry layer: "+format+": %w", append(args, ErrInvalid)...))
	}
}

// ranges adds what is wrong with ranges of addresses; all of them together are too
// many, for a reason.
func (f *faults) ranges(what string, list []netip.Prefix, all string) {
	f.add(len(list) <= maxEntryList, "%s has %d ranges: want at most %d", what, len(list), maxEntryList)
	for _, p := range list {
		f.add(p.IsValid() && p == p.Masked(), "%s %v: want a range such as 10.0.0.0/8", what, p)
		f.add(!p.IsValid() || p.Bits() > 0, "%s %v: %s", what, p, all)
	}
}

// Validate reports every fault at once. It returns ErrInvalid.
func (l EntryLayer) Validate() error {
	l = l.WithDefaults()
	var f faults
	f.add(len(l.Image) <= 512 && imageName.MatchString(l.Image), "image %q: want a reference such as registry.example.net/meshctl:1.2", Quotable(l.Image))
	f.add(l.PullSecret == "" || isSubdomain(l.PullSecret), "pullSecret %q: want the name of a Secret", Quotable(l.PullSecret))
	f.add(isSubdomain(l.PriorityClass), "priorityClass %q: want the name of a PriorityClass", Quotable(l.PriorityClass))
	f.add(slices.Contains([]string{"debug", "info", "warn", "error"}, l.LogLevel), "logLevel %q: want debug, info, warn or error", Quotable(l.LogLevel))
	l.checkNumber(&f)
	l.checkTimes(&f)
	l.checkNodes(&f)
	f.ranges("dns", l.DNS, "pods could reach anybody there")
	for _, p := range l.DNS {
		f.add(!p.Addr().Is4In6(), "dns %v: Kubernetes wants it as IPv4", p)
	}
	l.Resources.check(&f)
	l.Limits.check(&f)
	l.Service.check(&f)
	return errors.Join(f...)
}

// After refuses what a cluster cannot make out of an earlier layer: the class of a
// balancer stays as long as its Service does. It returns ErrConflict.
func (l EntryLayer) After(earlier EntryLayer) error {
	was, is := earlier.WithDefaults().Service, l.WithDefaults().Service
	if earlier.Image == "" || was.Type != ServiceLoadBalancer || is.Type != was.Type || is.Class == was.Class {
		return nil
	}
	return WithHint(fmt.Errorf("mesh: entry layer: service.class %q: it is %q, and Kubernetes never changes it: %w", Quotable(is.Class), Quotable(was.Class), ErrConflict),
		"deploy with the type nodeport in between, or uninstall first")
}

func (l EntryLayer) checkNumber(f *faults) {
	a := l.Autoscale
	scaled := a != (EntryAutoscale{})
	switch l.Kind {
	case EntryDeployment:
		f.add(scaled || l.Replicas >= 1 && l.Replicas <= maxPods, "replicas %d: want 1 to %d", l.Replicas, maxPods)
		f.add(!scaled || l.Replicas == 0, "replicas %d: the autoscaler decides that", l.Replicas)
	case EntryDaemonSet:
		f.add(l.Replicas == 0, "replicas %d: a daemonset has one pod on each node", l.Replicas)
		f.add(!scaled, "autoscale: a daemonset has one pod on each node")
	default:
		f.add(false, "kind %q: want deployment or daemonset", Quotable(string(l.Kind)))
	}
	f.add(!scaled || a.Min >= 1 && a.Min <= a.Max && a.Max <= maxPods, "autoscale: min %d, max %d: want 1 to %d, and min not above max", a.Min, a.Max, maxPods)
	f.add(!scaled || a.CPU >= 1 && a.CPU <= 1000, "autoscale: cpu %d: want 1 to 1000 percent of resources.cpu", a.CPU)
	f.add(l.Unavailable >= 1 && l.Unavailable <= maxPods, "unavailable %d: want 1 to %d", l.Unavailable, maxPods)
}

func (l EntryLayer) checkTimes(f *faults) {
	between := func(what string, d Duration, least, most time.Duration) {
		f.add(time.Duration(d) >= least && time.Duration(d) <= most, "%s %v: want %v to %v", what, d, least, most)
	}
	between("drainWait", l.DrainWait, time.Second, maxDrainWait)
	between("drainLimit", l.DrainLimit, time.Second, maxDrainLimit)
	between("deadline", l.Deadline, 10*time.Second, maxDeadline)
	f.add(l.Deadline >= l.DrainWait+Duration(5*time.Second), "deadline %v: want at least 5s more than drainWait (%v), for which a new pod must be ready to count", l.Deadline, l.DrainWait)
}

func (l EntryLayer) checkNodes(f *faults) {
	f.add(len(l.NodeSelector) <= maxEntryList, "nodeSelector has %d labels: want at most %d", len(l.NodeSelector), maxEntryList)
	for k, v := range l.NodeSelector {
		f.add(isQualified(k), "nodeSelector %q: want the key of a label", Quotable(k))
		f.add(labelValue.MatchString(v), "nodeSelector %s: %q: want the value of a label", Quotable(k), Quotable(v))
	}
	f.add(len(l.Tolerations) <= maxEntryList, "%d tolerations: want at most %d", len(l.Tolerations), maxEntryList)
	for _, t := range l.Tolerations {
		f.add(t.Key == "" && t.Value == "" || isQualified(t.Key), "toleration %q: want the key of a taint", Quotable(t.Key))
		f.add(labelValue.MatchString(t.Value), "toleration %s: value %q: want the value of a taint", Quotable(t.Key), Quotable(t.Value))
		f.add(slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect), "toleration %s: effect %q: want NoSchedule, PreferNoSchedule or NoExecute", Quotable(t.Key), Quotable(t.Effect))
	}
}

func (r EntryResources) check(f *faults) {
	read := func(what, s, like string) int64 {
		n, err := ParseQuantity(s)
		f.add(err == nil && n > 0, "%s %q: want a quantity above 0, such as %s", what, Quotable(s), like)
		return n
	}
	read("resources.cpu", r.CPU, "250m")
	memory, limit := read("resources.memory", r.Memory, "128Mi"), read("resources.memoryLimit", r.MemoryLimit, "512Mi")
	f.add(memory <= limit, "resources.memory %q: want no more than memoryLimit (%q)", Quotable(r.Memory), Quotable(r.MemoryLimit))
	const least = 64 << 20
	f.add(limit == 0 || limit >= least*1000, "resources.memoryLimit %q: want at least 64Mi", Quotable(r.MemoryLimit))
}

func (l EntryLimits) check(f *faults) {
	for _, x := range []struct {
		name string
		n    int
	}{{"connections", l.Connections}, {"perSource", l.PerSource}, {"hellos", l.Hellos}} {
		f.add(x.n >= 0 && x.n <= maxEntryLimit, "limits.%s %d: want 0 (the entry's own) to %d", x.name, x.n, maxEntryLimit)
	}
}

func (s EntryService) check(f *faults) {
	f.add(s.Type == ServiceLoadBalancer || s.Type == ServiceNodePort, "service.type %q: want loadbalancer or nodeport", Quotable(string(s.Type)))
	f.add(s.Class == "" || s.Type == ServiceLoadBalancer, "service.class %q: a service of type %s has none", Quotable(s.Class), Quotable(string(s.Type)))
	f.add(s.Class == "" || isQualified(s.Class), "service.class %q: want a name such as example.net/internal", Quotable(s.Class))
	f.add(s.Port >= 1 && s.Port <= 65535, "service.port %d: want 1 to 65535", s.Port)
	f.add(s.NodePort >= 0 && s.NodePort <= 65535, "service.nodePort %d: want 0 (the cluster chooses) to 65535", s.NodePort)
	s.checkAnnotations(f)
	f.ranges("service.proxies", s.Proxies, "everybody could say to be anybody")
	f.add(len(s.Public) <= maxEntryList, "service.public has %d addresses: want at most %d", len(s.Public), maxEntryList)
	for _, a := range s.Public {
		f.add(isHostOrHostPort(a), "service.public %q: want host or host:port", Quotable(a))
	}
	if s.Name != "" {
		n, err := ParseServerName(s.Name)
		f.add(err == nil && string(n) == s.Name, "service.name %q: want a DNS name in lower case, such as entry.example.net", Quotable(s.Name))
	}
}

func (s EntryService) checkAnnotations(f *faults) {
	size := 0
	for k, v := range s.Annotations {
		size += len(k) + len(v)
		f.add(isQualified(k), "service.annotations %q: want a key such as example.net/name", Quotable(k))
		prefix, _, _ := strings.Cut(k, "/")
		f.add(prefix != "meshctl.io" && prefix != "kubectl.kubernetes.io", "service.annotations %q: this one is not for people to set", Quotable(k))
		f.add(plainText(strings.NewReplacer("\n", "", "\t", "").Replace(v)), "service.annotations %q: a control character in its value", Quotable(k))
	}
	f.add(size <= maxAnnotations, "service.annotations of %d bytes: want at most %d", size, maxAnnotations)
}

func isHostOrHostPort(s string) bool {
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return false
		}
		host = h
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Zone() == ""
	}
	_, err := ParseServerName(host)
	return err == nil
}

// imageName is a reference as registries have it: an optional host, a path in lower
// case, and a tag, a digest or both.
var imageName = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]{1,5})?/)?` +
	`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*` +
	`(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$`)
