//go:build kube

package kube

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func (p *kept) leftAlone(t *testing.T) {
	before := p.writes(t)
	if before == 0 {
		t.Fatal("no write was counted, of those that made everything")
	}
	<-time.After(15 * time.Second)
	if after := p.writes(t); after != before {
		t.Errorf("%d writes; want none", after-before)
	}
}

// writes are how often anybody wrote objects of the kinds that are kept.
func (p *kept) writes(t *testing.T) (n int) {
	t.Helper()
	page, err := p.admin.raw(t.Context(), "GET", "/metrics", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{`"configmaps"`, `"serviceaccounts"`, `"services"`, `"deployments"`, `"daemonsets"`, `"horizontalpodautoscalers"`, `"networkpolicies"`, `"poddisruptionbudgets"`}
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.HasPrefix(name, "apiserver_request_total") || !(strings.Contains(name, `verb="PATCH"`) || strings.Contains(name, `verb="APPLY"`)) ||
			!strings.Contains(name, `subresource=""`) ||
			!slices.ContainsFunc(kinds, func(k string) bool { return strings.Contains(name, "resource="+k) }) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		n += int(v)
	}
	return n
}

func (p *kept) scaled(t *testing.T) {
	before := p.podNames(t)
	p.want(t, func(l *mesh.EntryLayer) { l.Replicas = 3 })
	p.complete(t, 3)
	after := p.podNames(t)
	for _, name := range before {
		if !slices.Contains(after, name) {
			t.Errorf("%s was replaced", name)
		}
	}
	p.want(t, func(l *mesh.EntryLayer) { l.Replicas = 2 })
	p.complete(t, 2)
}

func (p *kept) podNames(t testing.TB) (out []string) {
	t.Helper()
	pods, err := p.Pods(t.Context(), p.ns, kube.LabelName+"="+kube.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range pods {
		out = append(out, o.text("metadata", "name"))
	}
	return out
}

func (p *kept) drift(t *testing.T) {
	if err := p.admin.delete(t.Context(), p.path("ConfigMap")); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the ConfigMap that was deleted is noted", func(o kube.Observation) bool { return noted(o.Drift, "ConfigMap") })
	if _, err := p.admin.get(t.Context(), p.path("ConfigMap")); err != nil {
		t.Error(err)
	}
	const label = kube.LabelPartOf
	if err := p.admin.patch(t.Context(), p.path("Service"), object{"metadata": object{"labels": object{label: nil}}}); err != nil {
		t.Fatal(err)
	}
	p.WaitFor(t, "the label of the Service is there again", func() error {
		o, err := p.admin.get(t.Context(), p.path("Service"))
		if err == nil && o.text("metadata", "labels", label) == "" {
			err = errors.New("it is not")
		}
		return err
	})
	p.complete(t, 2)
}

func noted(drift []string, kind string) bool {
	return slices.ContainsFunc(drift, func(d string) bool { return strings.Contains(d, kind) })
}

func (p *kept) conflict(t *testing.T) {
	replicas := func(n int) object { return object{"spec": object{"replicas": n}} }
	if err := p.admin.patch(t.Context(), p.path("Deployment")+"?fieldManager=somebody-else", replicas(1)); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the other manager is named", func(o kube.Observation) bool {
		return slices.ContainsFunc(o.Conflicts, func(c mesh.KubeConflict) bool {
			return c.Manager == "somebody-else" && strings.Contains(c.Field, "replicas") && strings.Contains(c.Object, "Deployment")
		})
	})
	o, err := p.admin.get(t.Context(), p.path("Deployment"))
	if err != nil || o.number("spec", "replicas") != 1 {
		t.Errorf("%d replicas, %v; want the 1 of the other", o.number("spec", "replicas"), err)
	}
	if err := p.admin.patch(t.Context(), p.path("Deployment")+"?fieldManager=somebody-else", replicas(2)); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the conflict is over", func(o kube.Observation) bool { return len(o.Conflicts) == 0 })
	p.complete(t, 2)
}

func (p *kept) handedOver(t *testing.T) {
	before := p.podNames(t)
	p.want(t, func(l *mesh.EntryLayer) {
		l.Replicas, l.Autoscale = 0, mesh.EntryAutoscale{Min: 2, Max: 5, CPU: 70}
	})
	p.complete(t, 2)
	if after := p.podNames(t); !slices.Equal(before, after) {
		t.Errorf("pods were %v and are %v", before, after) // as when there was 1 for a moment, which is what no number means
	}
	if err := p.admin.patch(t.Context(), p.path("Deployment")+"/scale?fieldManager=kube-controller-manager", object{"spec": object{"replicas": 4}}); err != nil {
		t.Fatal(err)
	}
	p.complete(t, 4)
	p.want(t, func(l *mesh.EntryLayer) { l.LogLevel = "debug" })
	p.complete(t, 4)
	p.want(t, func(l *mesh.EntryLayer) { l.Replicas, l.Autoscale = 2, mesh.EntryAutoscale{} })
	p.complete(t, 2)
	if _, err := p.admin.get(t.Context(), p.path("HorizontalPodAutoscaler")); err == nil {
		t.Error("the autoscaler is still there")
	}
}

func (p *kept) otherKind(t *testing.T) {
	p.want(t, func(l *mesh.EntryLayer) { l.Replicas, l.Kind = 0, mesh.EntryDaemonSet })
	p.complete(t, 2)
	if _, err := p.admin.get(t.Context(), p.path("Deployment")); err == nil {
		t.Error("the Deployment is still there")
	}
	p.want(t, func(l *mesh.EntryLayer) { l.LogLevel = "info" })
	p.complete(t, 2)
	p.want(t, func(l *mesh.EntryLayer) { l.Replicas, l.Kind = 2, mesh.EntryDeployment })
	p.complete(t, 2)
}

func (p *kept) stuck(t *testing.T) {
	good := p.release
	p.want(t, func(l *mesh.EntryLayer) { l.Image = "meshctl.test/missing:1" })
	o := p.until(t, "it is stuck", func(o kube.Observation) bool { return o.Stuck })
	t.Log(o.Why)
	if !strings.Contains(o.Why, "meshctl-entry-") || !strings.Contains(o.Why, "Image") {
		t.Errorf("why %q; want the pod and the reason", o.Why)
	}
	p.release.Layer = good.Layer
	p.release.Pods = good.Pods
	p.want(t, func(*mesh.EntryLayer) {})
	p.complete(t, 2)
}

// late has a second keeper with a later epoch, which is what a new leader is.
func (p *kept) late(t *testing.T) {
	p.facts.Epoch.Leader = 2
	w := p.want(t, func(*mesh.EntryLayer) {})
	p.complete(t, 2)
	w.Epoch.Leader, p.facts.Epoch.Leader = 1, 1
	late, err := kube.Render(p.release, p.facts)
	if err != nil {
		t.Fatal(err)
	}
	w.Objects = late
	stale := make(chan struct{})
	once := sync.OnceFunc(func() { close(stale) })
	p.run(t, func(o kube.Observation) {
		if o.Stale {
			once()
		}
	}).Set(w)
	select {
	case <-stale:
	case <-time.After(patience):
		t.Error("who is late did not stop")
	}
	o, err := p.admin.get(t.Context(), p.path("Deployment"))
	if got := o.text("metadata", "annotations", kube.AnnotationEpoch); err != nil || got != "1.2" {
		t.Errorf("the epoch is %s, %v; want 1.2", got, err)
	}
	p.facts.Epoch.Leader = 2
}

func (p *kept) removed(t *testing.T) {
	w := p.want(t, func(*mesh.EntryLayer) {})
	w.Objects = nil
	p.keeper.Set(w)
	p.until(t, "nothing of ours is left", func(o kube.Observation) bool { return o.Removed })
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "ServiceAccount"} {
		if _, err := p.admin.get(t.Context(), p.path(kind)); err == nil {
			t.Errorf("%s is still there", kind)
		}
	}
}
