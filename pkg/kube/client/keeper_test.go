package client

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var first = kube.Epoch{Mesh: 1, Leader: 10}

// started has a layer that is deployed and complete.
func started(t *testing.T, l mesh.EntryLayer) (*kubetest.Server, *desk) {
	t.Helper()
	s := kubetest.New(t)
	s.Roll(t, nil)
	d := open(t, s, quick())
	d.set(l, 1, first)
	d.until(0, "is complete", isComplete(1))
	return s, d
}

func TestWhatIsWantedIsThere(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	o := d.until(0, "is complete", isComplete(1))
	if o.Version != kubetest.Version || len(o.Pods) != 2 || !o.Pods[0].Ready || o.Pods[0].Release != 1 || o.Pods[0].Node == "" {
		t.Errorf("it was seen as %+v", o)
	}
	if len(o.Conflicts)+len(o.Problems)+len(o.Drift) > 0 {
		t.Errorf("there are complaints: %+v", o)
	}
	for _, kind := range []string{"ServiceAccount", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "Deployment"} {
		if s.Get(t, kind, space, kube.Name) == nil {
			t.Errorf("there is no %s", kind)
		}
	}
}

func TestNothingIsWrittenWhileNothingDiffers(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	s.Requests()
	// Statuses change all the time, and with them the versions of objects.
	for i := range 3 {
		s.EditStatus(t, "Deployment", space, kube.Name, func(o kubetest.Object) { o["status"].(map[string]any)["collisionCount"] = i + 1 })
		s.Edit(t, "cloud", "Service", space, kube.Name, func(o kubetest.Object) {
			o["metadata"].(map[string]any)["annotations"].(map[string]any)["cloud.example/state"] = time.Duration(i).String()
		})
		seen := d.now()
		d.until(seen+1, "came after", func(o kube.Observation) bool { return o.Applied })
	}
	if w := s.Writes(); len(w) > 0 {
		t.Errorf("there was nothing to write: %q", w)
	}
	if got := s.Get(t, "Service", space, kube.Name)["metadata"].(map[string]any)["annotations"].(map[string]any)["cloud.example/state"]; got == nil {
		t.Error("the annotation of the cloud's controller is gone")
	}
}

func TestAnotherReleaseRolls(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	l := layer()
	l.Image = "registry.example.net/meshctl:2"
	d.set(l, 2, first)
	o := d.until(0, "has the second", isComplete(2))
	if o.Pods[0].Release != 2 || len(s.Names(t, "Pod", space)) != 2 {
		t.Errorf("pods: %+v", o.Pods)
	}
	if d.drifts() != "" {
		t.Errorf("what was wanted is called drift: %s", d.drifts())
	}
}

func TestWhatOthersTookAwayComesBackAndIsNamed(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	s.Delete(t, "Service", space, kube.Name)
	eventually(t, "the Service is back", func() bool { return s.Get(t, "Service", space, kube.Name) != nil })
	s.Edit(t, "kubectl-edit", "NetworkPolicy", space, kube.Name, func(o kubetest.Object) { delete(o["spec"].(map[string]any), "egress") })
	eventually(t, "the policy is whole", func() bool {
		return s.Get(t, "NetworkPolicy", space, kube.Name)["spec"].(map[string]any)["egress"] != nil
	})
	eventually(t, "both are named", func() bool {
		return d.drifts() == "Service/meshctl-entry was deleted, NetworkPolicy/meshctl-entry was changed"
	})
}

func TestAnObjectWithoutItsLabelsIsStillOurs(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	labels := func() map[string]any {
		l, _ := s.Get(t, "ConfigMap", space, kube.Name)["metadata"].(map[string]any)["labels"].(map[string]any)
		return l
	}
	all := len(labels())
	for _, take := range []func(map[string]any){
		func(meta map[string]any) { delete(meta, "labels") },
		func(meta map[string]any) { delete(meta["labels"].(map[string]any), kube.LabelCluster) },
	} {
		s.Edit(t, "kubectl-label", "ConfigMap", space, kube.Name, func(o kubetest.Object) { take(o["metadata"].(map[string]any)) })
		eventually(t, "the labels are back", func() bool { return len(labels()) == all })
	}
	eventually(t, "it is named", func() bool {
		return d.drifts() == "ConfigMap/meshctl-entry was changed, ConfigMap/meshctl-entry was changed"
	})
}

func TestWhoChangesItAgainAndAgainIsNotFoughtForLong(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	p := quick()
	s.Requests()
	for range p.fight {
		s.Delete(t, "PodDisruptionBudget", space, kube.Name)
		eventually(t, "it is back", func() bool { return s.Get(t, "PodDisruptionBudget", space, kube.Name) != nil })
		seen := d.now()
		d.until(seen, "knows it is back", func(o kube.Observation) bool { return o.Applied })
	}
	s.Delete(t, "PodDisruptionBudget", space, kube.Name)
	o := d.until(0, "gives up for a while", func(o kube.Observation) bool { return len(o.Problems) > 0 })
	if o.Applied || o.Problems[0] != "PodDisruptionBudget/meshctl-entry: others change it again and again, so it is put right less often" {
		t.Errorf("it says %+v", o)
	}
	if w := s.Writes(); len(w) != p.fight {
		t.Errorf("it wrote %d times: %q", len(w), w)
	}
}

func TestWhatIsNotWantedGoes(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	l := layer()
	l.OpenNetwork = true
	d.set(l, 2, first)
	eventually(t, "the policy is gone", func() bool { return s.Get(t, "NetworkPolicy", space, kube.Name) == nil })
	if d.drifts() != "" {
		t.Errorf("drift: %s", d.drifts())
	}
}

func TestAllGoesAndOthersStay(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	s.Edit(t, "kubectl", "ConfigMap", space, "theirs", func(o kubetest.Object) { o["data"] = map[string]any{"a": "b"} })
	d.keeper.Set(d.work(nil, 0, first))
	eventually(t, "the Deployment is gone", func() bool { return s.Get(t, "Deployment", space, kube.Name) == nil })
	for _, pod := range s.Names(t, "Pod", space) {
		s.Delete(t, "Pod", space, pod)
	}
	d.until(0, "is removed", func(o kube.Observation) bool { return o.Removed })
	if s.Get(t, "ConfigMap", space, "theirs") == nil {
		t.Error("what is not ours is gone")
	}
	if s.Get(t, "Service", space, kube.Name) != nil {
		t.Error("the Service is still there")
	}
}

func TestAnotherKindServesBeforeTheOldOneGoes(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	ready := make(chan struct{})
	s.Roll(t, func(template kubetest.Object) kubetest.Start {
		_, set := template["spec"].(map[string]any)["topologySpreadConstraints"]
		select {
		case <-ready:
			return kubetest.Start{}
		default:
		}
		if !set { // that of the DaemonSet
			return kubetest.Start{Waiting: "ContainerCreating"}
		}
		return kubetest.Start{}
	})
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	d.until(0, "is complete", isComplete(1))
	l := layer()
	l.Kind, l.Replicas = mesh.EntryDaemonSet, 0
	d.set(l, 2, first)
	seen := d.now()
	d.until(seen, "has one pod that is not ready", func(o kube.Observation) bool { return o.Release == 2 && o.Updated == 1 && o.Applied })
	if s.Get(t, "Deployment", space, kube.Name) == nil {
		t.Fatal("the Deployment went before the DaemonSet served")
	}
	close(ready)
	s.EditStatus(t, "DaemonSet", space, kube.Name, func(o kubetest.Object) {
		st := o["status"].(map[string]any)
		st["updatedNumberScheduled"], st["numberAvailable"] = 3, 3
	})
	eventually(t, "the Deployment is gone", func() bool { return s.Get(t, "Deployment", space, kube.Name) == nil })
}
