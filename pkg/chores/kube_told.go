package chores

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// What the child tells of a cluster has words of that cluster, and of whoever can
// write there: it is bounded, made printable, and rid of credentials.
const (
	maxKubeJSON = 768 << 10
	maxKubeMore = 10_000 // pods that are not described
	maxKubeUID  = 64
	maxKubeList = 100 // of anything else
	maxKubeName = 260
	maxKubeWhy  = 2 << 10
	maxKubeDiff = 64 << 10
	maxKubePlan = 512 << 10 // of all differences
)

var kubeFailures = []kube.Failure{
	kube.NoFailure, kube.Unreachable, kube.Untrusted, kube.Credential, kube.Denied, kube.Limited, kube.Broken, kube.Foreign, kube.Other,
}

// kubeOutcomeOf checks what the child says; false when it is about no cluster that
// it was ordered to keep.
func kubeOutcomeOf(o *controlpb.KubeOutcome, ordered *controlpb.KubeOrder, now time.Time) (kube.Observation, bool) {
	known := slices.ContainsFunc(ordered.GetClusters(), func(w *controlpb.KubeWork) bool { return w.GetCluster() == o.GetCluster() })
	var out kube.Observation
	if !known || len(o.GetJson()) > maxKubeJSON || json.Unmarshal(o.GetJson(), &out) != nil {
		return kube.Observation{}, false
	}
	t := told{func(s string) string { return hideKube(ordered, s) }}
	out.Cluster, out.Release, out.Failure = mesh.KubeID(o.GetCluster()), o.GetRelease(), t.failure(out.Failure)
	if out.At.IsZero() || out.At.After(now) {
		out.At = now
	}
	t.line(&out.Detail, maxDetail)
	t.line(&out.Version, maxKubeName)
	t.lines(&out.Why, maxKubeWhy)
	t.line(&out.Mark, maxKubeName)
	t.line(&out.NamespaceUID, maxKubeUID)
	for _, n := range []*int{&out.Desired, &out.Updated, &out.Ready, &out.Old, &out.Earlier, &out.Tally.All, &out.Tally.Ready, &out.Tally.Ending} {
		*n = max(0, *n)
	}
	out.Swept = t.list(out.Swept, maxKubeName)
	out.Problems, out.Drift = t.list(out.Problems, maxDetail), t.list(out.Drift, maxKubeName)
	out.Conflicts = t.conflicts(out.Conflicts)
	out.Pods, out.More = bounded(out.Pods, mesh.MaxKubePods), bounded(out.More, maxKubeMore)
	for i := range out.Pods {
		t.pod(&out.Pods[i])
	}
	for i := range out.More {
		t.line(&out.More[i], maxKubeUID)
	}
	out.Addresses = bounded(out.Addresses, maxKubeList)
	for i := range out.Addresses {
		a := &out.Addresses[i]
		*a = mesh.KubeAddress{Host: a.Host, Port: a.Port, Source: a.Source} // whether it answers is not the child's to say
		t.line(&a.Host, maxKubeName)
		t.line(&a.Source, maxKubeName)
	}
	out.Addresses = slices.DeleteFunc(out.Addresses, func(a mesh.KubeAddress) bool { return a.Host == "" || a.Port < 1 || a.Port > 65535 })
	return out, true
}

// kubeAnswerOf checks what the child answers to an ask.
func kubeAnswerOf(text []byte, asked *controlpb.KubeAsk) (kube.Answer, bool) {
	var out kube.Answer
	if len(text) > maxKubeJSON || json.Unmarshal(text, &out) != nil {
		return kube.Answer{}, false
	}
	t := told{func(s string) string { return conceal(s, asked.GetApi().GetCredential()) }}
	out.Failure = t.failure(out.Failure)
	t.line(&out.Detail, maxDetail)
	t.line(&out.Version, maxKubeName)
	t.line(&out.NamespaceUID, maxKubeUID)
	out.Missing = t.list(out.Missing, maxKubeName)
	out.Changes = bounded(out.Changes, maxKubeList)
	room := maxKubePlan
	for i := range out.Changes {
		c := &out.Changes[i]
		t.line(&c.Object, maxKubeName)
		t.lines(&c.Diff, min(maxKubeDiff, room))
		room -= min(room, len(c.Diff))
		c.Conflicts = t.conflicts(c.Conflicts)
		if !slices.Contains([]kube.ChangeAction{kube.Create, kube.Update, kube.Remove, kube.Keep}, c.Action) {
			c.Action = kube.Update
		}
	}
	return out, true
}

// told is what the words of a cluster go through.
type told struct{ hide func(string) string }

func (told) failure(f kube.Failure) kube.Failure {
	if slices.Contains(kubeFailures, f) {
		return f
	}
	return kube.Other
}

func (t told) line(s *string, most int) { *s = cut(printable(t.hide(*s)), most) }

// lines keeps the ends of lines, and of what is too long the beginning.
func (t told) lines(s *string, most int) {
	*s = cut(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return ' '
	}, t.hide(*s)), most)
}

func (t told) list(in []string, most int) []string {
	in = bounded(in, maxKubeList)
	for i := range in {
		t.line(&in[i], most)
	}
	return in
}

func (t told) conflicts(in []mesh.KubeConflict) []mesh.KubeConflict {
	in = bounded(in, maxKubeList)
	for i := range in {
		t.line(&in[i].Object, maxKubeName)
		t.line(&in[i].Field, maxKubeName)
		t.line(&in[i].Manager, maxKubeName)
	}
	return in
}

func (t told) pod(p *mesh.KubePod) {
	for _, s := range []*string{&p.Name, &p.UID, &p.Node, &p.HostIP, &p.IP} {
		t.line(s, maxKubeName)
	}
	t.line(&p.Reason, maxDetail)
	p.Restarts = max(0, p.Restarts)
}

func bounded[T any](in []T, most int) []T { return in[:min(len(in), most)] }

// cut is at most so many bytes of a text.
func cut(s string, most int) string {
	const more = "…"
	switch {
	case len(s) <= most:
		return s
	case most < len(more):
		return ""
	}
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}
