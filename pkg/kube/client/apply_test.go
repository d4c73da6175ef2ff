package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestAConflictNamesBothAndForcesNothing(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	s.Edit(t, "kubectl-edit", "PodDisruptionBudget", space, kube.Name, func(o kubetest.Object) { o["spec"].(map[string]any)["maxUnavailable"] = 2 })
	o := d.until(0, "has a conflict", func(o kube.Observation) bool { return len(o.Conflicts) > 0 })
	want := mesh.KubeConflict{Object: "PodDisruptionBudget/meshctl-entry", Field: "spec.maxUnavailable", Manager: "kubectl-edit"}
	if o.Conflicts[0] != want || len(o.Conflicts) != 1 || o.Applied {
		t.Errorf("it says %+v", o)
	}
	// The others go on.
	l := layer()
	l.Image = "registry.example.net/meshctl:2"
	d.set(l, 2, first)
	d.until(0, "has the second release", func(o kube.Observation) bool { return o.Release == 2 && o.Updated == 2 && len(o.Conflicts) == 1 })
	if got := s.Get(t, "PodDisruptionBudget", space, kube.Name)["spec"].(map[string]any)["maxUnavailable"]; got != int64(2) {
		t.Errorf("the other's value was taken away: %v", got)
	}
	// The other gives in.
	seen := d.now()
	s.Edit(t, "kubectl-edit", "PodDisruptionBudget", space, kube.Name, func(o kubetest.Object) { o["spec"].(map[string]any)["maxUnavailable"] = 1 })
	d.until(seen, "has none", func(o kube.Observation) bool { return o.Applied && len(o.Conflicts) == 0 })
}

func TestAConflictIsNotTriedAgainAndAgain(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	p := quick()
	p.again = time.Hour
	d := open(t, s, p)
	d.set(layer(), 1, first)
	d.until(0, "is complete", isComplete(1))
	s.Scale(t, "kubectl", space, kube.Name, 5)
	o := d.until(0, "has a conflict", func(o kube.Observation) bool { return len(o.Conflicts) == 1 })
	if o.Conflicts[0].Field != "spec.replicas" || o.Conflicts[0].Manager != "kubectl (scale)" {
		t.Errorf("it says %+v", o.Conflicts)
	}
	s.Requests()
	for i := range 5 { // a status changes
		seen := d.now()
		s.EditStatus(t, "Deployment", space, kube.Name, func(o kubetest.Object) {
			o["status"].(map[string]any)["updatedReplicas"], o["status"].(map[string]any)["observedGeneration"] = i, 99
		})
		d.until(seen, "saw it", func(o kube.Observation) bool { return o.Updated == i })
	}
	if w := s.Writes(); len(w) > 0 {
		t.Errorf("it tried again: %q", w)
	}
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	other := objects(t, layer(), 1, first)
	s.Edit(t, "kubectl", "Service", space, kube.Name, func(o kubetest.Object) { o["spec"] = map[string]any{"type": "ClusterIP"} })
	for _, o := range other { // of another cluster in the same namespace
		if o.Kind() == "ConfigMap" {
			o["metadata"].(map[string]any)["labels"].(map[string]any)[kube.LabelCluster] = "kube-cccccccccccccccc"
			if err := s.Apply(t, kube.FieldManager, space, o, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	o := d.until(0, "has two problems", func(o kube.Observation) bool { return len(o.Problems) == 2 && o.Ready == 2 })
	if o.Failure != kube.Foreign || o.Applied || !strings.Contains(o.Problems[1], "Service/meshctl-entry: there is one that is not ours") {
		t.Errorf("it says %+v", o)
	}
	d.keeper.Set(d.work(nil, 0, first))
	eventually(t, "ours are gone", func() bool { return s.Get(t, "Deployment", space, kube.Name) == nil })
	eventually(t, "the account is gone", func() bool { return s.Get(t, "ServiceAccount", space, kube.Name) == nil })
	if s.Get(t, "Service", space, kube.Name) == nil || s.Get(t, "ConfigMap", space, kube.Name) == nil {
		t.Error("what is not ours was removed")
	}
}

func TestALaterLeaderIsNotDisturbed(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	second := kube.Epoch{Mesh: 1, Leader: 11}
	other := open(t, s, quick())
	l := layer()
	l.Image = "registry.example.net/meshctl:2"
	other.set(l, 2, second)
	other.until(0, "is complete", isComplete(2))
	d.until(0, "has stopped", func(o kube.Observation) bool { return o.Stale })
	other.stop()
	s.Requests()
	s.Delete(t, "Service", space, kube.Name)
	seen := d.now()
	d.until(seen+1, "still looks", func(o kube.Observation) bool { return o.Stale && !o.Applied })
	if w := s.Writes(); len(w) > 0 {
		t.Errorf("it wrote on: %q", w)
	}
	// It leads again.
	d.set(layer(), 3, kube.Epoch{Mesh: 1, Leader: 12})
	d.until(0, "is complete", isComplete(3))
}

func TestAnotherEpochRollsNothing(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	pods, uid := s.Names(t, "Pod", space), deployment(t, s)["metadata"].(map[string]any)["generation"]
	seen := d.now()
	d.set(layer(), 1, kube.Epoch{Mesh: 2, Leader: 1})
	d.until(seen, "is complete", isComplete(1))
	eventually(t, "the epoch is the later one", func() bool {
		return deployment(t, s)["metadata"].(map[string]any)["annotations"].(map[string]any)[kube.AnnotationEpoch] == "2.1"
	})
	if !slices.Equal(pods, s.Names(t, "Pod", space)) || deployment(t, s)["metadata"].(map[string]any)["generation"] != uid {
		t.Error("the pods are others")
	}
}

// A leader that was paused between reading and writing wakes after another has written.
func TestWhoWasPausedBetweenReadingAndWritingLoses(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	d.stop()
	c, err := dial(s.API(space))
	if err != nil {
		t.Fatal(err)
	}
	defer c.idle()
	late := &applier{conn: c, owner: owner{theMesh, cluster}, epoch: first, took: patience}
	l := layer()
	l.LogLevel = "debug"
	list, err := want(objects(t, l, 5, first), space, first)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(w wanted) bool { return w.kind.name == "Deployment" })
	var once atomic.Bool
	s.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && once.CompareAndSwap(false, true) {
			newer := objects(t, layer(), 2, kube.Epoch{Mesh: 1, Leader: 99})
			for _, o := range newer {
				if o.Kind() == "Deployment" {
					if err := s.Apply(t, kube.FieldManager, space, o, false); err != nil {
						t.Error(err)
					}
				}
			}
		}
		return false
	})
	_, _, err = late.apply(t.Context(), list[i], nil, false)
	if !errors.Is(err, errStale) {
		t.Errorf("it ended with %v", err)
	}
	if got := deployment(t, s)["metadata"].(map[string]any)["annotations"].(map[string]any)[kube.AnnotationEpoch]; got != "1.99" {
		t.Errorf("the object is of epoch %v", got)
	}
}

func TestTheNumberOfPodsGoesToAnAutoscalerAndBack(t *testing.T) {
	t.Parallel()
	l := layer()
	l.Replicas = 4
	s, d := started(t, l)
	low := watchReplicas(t, s)
	auto := l
	auto.Replicas, auto.Autoscale = 0, mesh.EntryAutoscale{Min: 2, Max: 9, CPU: 60}
	d.set(auto, 2, first)
	d.until(0, "is complete", func(o kube.Observation) bool { return o.Release == 2 && o.Applied })
	if n := replicas(t, s); n != 4 {
		t.Fatalf("there are to be %d pods; want the 4 that were there", n)
	}
	s.Scale(t, "kube-controller-manager", space, kube.Name, 7)
	seen := d.now()
	d.until(seen+1, "leaves it", func(o kube.Observation) bool { return o.Applied && o.Desired == 7 && len(o.Conflicts) == 0 })
	if s.Get(t, "HorizontalPodAutoscaler", space, kube.Name) == nil {
		t.Error("there is no autoscaler")
	}
	// And back: first with the number that there is, which both share, then with another.
	l.Replicas = 7
	d.set(l, 3, first)
	d.until(0, "is complete", func(o kube.Observation) bool { return o.Release == 3 && o.Applied })
	l.Replicas = 3
	d.set(l, 4, first)
	d.until(0, "is complete", func(o kube.Observation) bool { return o.Release == 4 && o.Applied && o.Desired == 3 })
	if s.Get(t, "HorizontalPodAutoscaler", space, kube.Name) != nil {
		t.Error("the autoscaler is still there")
	}
	if n := low(); n < 3 {
		t.Errorf("for a moment there were to be %d pods", n)
	}
	// From now on it is like any field: who changes it is reported.
	s.Scale(t, "kubectl", space, kube.Name, 8)
	d.until(0, "has a conflict", func(o kube.Observation) bool { return len(o.Conflicts) == 1 && o.Desired == 8 })
}

func TestAnAutoscaledDeploymentBeginsWithItsFewestPods(t *testing.T) {
	t.Parallel()
	l := layer()
	l.Replicas, l.Autoscale = 0, mesh.EntryAutoscale{Min: 3, Max: 9, CPU: 60}
	s, d := started(t, l)
	if n := replicas(t, s); n != 3 {
		t.Errorf("it begins with %d pods; want 3", n)
	}
	s.Scale(t, "kube-controller-manager", space, kube.Name, 5)
	d.until(0, "has five", func(o kube.Observation) bool { return o.Applied && o.Desired == 5 && len(o.Conflicts) == 0 })
	l.Image = "registry.example.net/meshctl:2"
	d.set(l, 2, first)
	d.until(0, "has five of the second", func(o kube.Observation) bool { return isComplete(2)(o) && o.Desired == 5 })
}

// watchReplicas returns the lowest number of pods that ever was to be.
func watchReplicas(t *testing.T, s *kubetest.Server) func() int64 {
	t.Helper()
	c, err := dial(s.API(space))
	if err != nil {
		t.Fatal(err)
	}
	k, _ := kindOfName("Deployment")
	w := &watcher{conn: c, kind: k, owner: owner{theMesh, cluster}, cache: newCache(), pace: quick()}
	lowest := int64(1 << 30)
	from, err := w.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := w.of(k).Watch(ctx, listFrom(from))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range stream.ResultChan() {
			w.take(e, from)
			if o, ok := w.cache.get("Deployment", kube.Name); ok && o != nil {
				lowest = min(lowest, *replicasOf(o))
			}
		}
	}()
	return func() int64 {
		cancel()
		stream.Stop()
		<-done
		c.idle()
		return lowest
	}
}
