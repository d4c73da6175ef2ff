package client

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// observe says how the cluster is.
func (s *session) observe(ctx context.Context) kube.Observation {
	o := kube.Observation{
		Cluster: s.work.Cluster, Release: s.work.Release, Mark: s.work.Mark, At: now(),
		Version: s.version, NamespaceUID: s.spaceUID, Stale: s.stale, Drift: slices.Clone(s.drift), Swept: slices.Clone(s.swept),
	}
	s.tellStandings(&o)
	o.Failure, o.Detail = s.failure(o.Failure)
	pods := s.pods()
	o.Tally = mesh.TallyPods(pods)
	o.Pods, o.More = few(pods)
	if w, ok := s.workload(); ok {
		s.tellRollout(ctx, w, pods, &o)
	}
	o.Problems = append(o.Problems, s.complaints()...)
	o.Addresses = s.addresses(pods)
	o.Removed = len(s.wanted) == 0 && s.broken == nil && s.cleared && s.isEmpty()
	return o
}

// tellStandings says which objects are not as they should be, and whether all are.
func (s *session) tellStandings(o *kube.Observation) {
	o.Applied = len(s.wanted) > 0 && s.broken == nil && !s.stale
	for _, w := range s.wanted {
		st := s.standing[w.key()]
		if st == nil || st.good == nil || st.err != nil || st.hash != w.hash || !s.isSeen(w, st) {
			o.Applied = false
		}
		if st == nil || st.err == nil {
			continue
		}
		if c, ok := errors.AsType[*conflictError](st.err); ok {
			o.Conflicts = append(o.Conflicts, c.fields...)
			continue
		}
		o.Problems = append(o.Problems, st.problem(w.key()))
		switch kind, _ := failure(st.err); {
		case errors.Is(st.err, errForeign):
			o.Failure = kube.Foreign
		case kind == kube.Denied && o.Failure == kube.NoFailure:
			o.Failure = kube.Denied
		}
	}
}

// isSeen: the watch has caught up with what was applied.
func (s *session) isSeen(w wanted, st *standing) bool {
	live, known := s.cache.get(w.kind.name, w.GetName())
	return !known || live != nil && reflect.DeepEqual(owned(live, manager), st.good)
}

// failure is what keeps the API from being looked at, before what it refused.
func (s *session) failure(refused kube.Failure) (kube.Failure, string) {
	if kind, detail := failure(s.broken); kind != kube.NoFailure {
		return kind, detail
	}
	for _, err := range s.cache.trouble() {
		return failure(err)
	}
	for _, st := range s.standing {
		switch kind, detail := failure(st.err); {
		case refused == kube.Foreign && errors.Is(st.err, errForeign):
			return refused, "something is there under the name of ours"
		case refused == kube.Denied && kind == kube.Denied:
			return refused, detail
		}
	}
	return refused, ""
}

// tellRollout says how far the pods are.
func (s *session) tellRollout(ctx context.Context, w wanted, pods []mesh.KubePod, o *kube.Observation) {
	live, _ := s.cache.get(w.kind.name, w.GetName())
	release := releaseOf(w.Object, "spec", "template", "metadata", "labels")
	seen := false
	for _, p := range pods {
		seen = seen || p.Release == release
		switch {
		case p.Release != release && !p.Ending:
			o.Old++
			o.Earlier++
		case p.Ending:
			o.Old++
		case p.Ready:
			o.Ready++
		}
	}
	if live == nil {
		return
	}
	f := figuresOf(live)
	o.Desired, o.Paused = f.desired, f.paused
	if f.current && releaseOf(live.Object, "spec", "template", "metadata", "labels") == release {
		o.Updated = f.updated
	}
	// Before the watch shows what was applied, it is an earlier one that was stuck.
	st := s.standing[w.key()]
	o.Stuck = f.stuck && st != nil && st.good != nil && st.hash == w.hash && s.isSeen(w, st)
	if o.Updated > 0 && !seen && s.cache.follows("Pod") {
		o.Stuck = false // the watch of pods is behind: one of them will say why
	}
	if w.kind.name == "DaemonSet" {
		o.Stuck = s.progress.stuck(release, o.Desired, o.Updated, o.Ready, o.Paused, s.deadlineOf(w))
	}
	if o.Stuck {
		o.Why = s.why(ctx, pods, release, live)
	}
}

// deadlineOf is how long a DaemonSet may make no progress.
func (s *session) deadlineOf(w wanted) time.Duration {
	n, err := strconv.Atoi(w.GetAnnotations()[kube.AnnotationDeadline])
	if err != nil || n <= 0 {
		return s.pace.deadline
	}
	return time.Duration(n) * time.Second
}

// releaseOf is the release that labels name, 0 for none.
func releaseOf(o map[string]any, labels ...string) int64 {
	text, _, _ := unstructured.NestedString(o, append(labels, kube.LabelRelease)...)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// isEmpty: nothing of ours is left, as far as anybody can see.
func (s *session) isEmpty() bool {
	for _, k := range kinds {
		list, known := s.cache.list(k.name)
		if !known || slices.ContainsFunc(list, func(o *unstructured.Unstructured) bool { return k.made || !byHand(o) }) {
			return false
		}
	}
	return true
}

// pausedByOthers: a Deployment stands still by a field that is not ours unless we set
// it, so nothing is in conflict, and a rolling update would never end or fail.
func (s *session) pausedByOthers(w wanted) bool {
	st := s.standing[w.key()]
	live, _ := s.cache.get(w.kind.name, w.GetName())
	if w.kind.name != "Deployment" || live == nil || st == nil || st.good == nil || !s.isSeen(w, st) {
		return false
	}
	ours, _, _ := unstructured.NestedBool(w.Object, "spec", "paused")
	return !ours && figuresOf(live).paused
}

// complaints are what the cluster itself says is wrong.
func (s *session) complaints() []string {
	var out []string
	if s.unguarded {
		out = append(out, "Namespace/"+s.applier.namespace+": it does not enforce the Pod Security standard "+kube.PodSecurity+
			": apply what `meshctl admin kube rbac` prints again")
	}
	if w, ok := s.workload(); ok && s.pausedByOthers(w) {
		out = append(out, w.key()+": somebody else paused it, and its pods do not change until it is resumed: kubectl -n "+
			s.applier.namespace+" rollout resume "+strings.ToLower(w.key()))
	}
	for _, c := range []struct{ kind, condition, bad string }{
		{"Deployment", "ReplicaFailure", "True"},
		{"HorizontalPodAutoscaler", "ScalingActive", "False"},
		{"HorizontalPodAutoscaler", "AbleToScale", "False"},
	} {
		list, _ := s.cache.list(c.kind)
		for _, o := range list {
			found := conditionOf(o, c.condition)
			message, _ := found["message"].(string)
			if found["status"] == c.bad && found["reason"] != "ScalingDisabled" {
				out = append(out, ref(o)+": "+printable(message, 512))
			}
		}
	}
	return out
}
