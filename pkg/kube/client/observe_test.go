package client

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestAReleaseThatIsStuckSaysWhichPodWhyAndItsLastLines(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, func(template kubetest.Object) kubetest.Start {
		if strings.Contains(containerImage(template), ":2") {
			return kubetest.Start{Waiting: "CrashLoopBackOff", Message: "back-off 10s", Crashed: 3}
		}
		return kubetest.Start{}
	})
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	d.until(0, "is complete", isComplete(1))
	l := layer()
	l.Image = "registry.example.net/meshctl:2"
	d.set(l, 2, first)
	o := d.until(0, "has a pod that is not ready", func(o kube.Observation) bool {
		return o.Release == 2 && o.Applied && len(o.Pods) == 3 && o.Updated == 1
	})
	if o.Stuck || o.Ready != 0 || o.Old != 2 || o.Desired != 2 {
		t.Errorf("it says %+v", o)
	}
	var bad mesh.KubePod
	for _, p := range o.Pods {
		if p.Release == 2 {
			bad = p
		}
	}
	s.Log(bad.Name, "starting again\n", false)
	s.Log(bad.Name, strings.Repeat("noise\n", 2000)+"\x1b[31mentry: no such flag --lsten\x1b[0m\n", true)
	s.Expire(t, space, kube.Name)
	o = d.until(0, "is stuck", func(o kube.Observation) bool { return o.Stuck })
	if !strings.HasPrefix(o.Why, "pod "+bad.Name+": ended with code 1 (Error)\n") || !strings.HasSuffix(o.Why, "entry: no such flag --lsten[0m") {
		t.Errorf("it says why: %q", o.Why)
	}
	if len(o.Why) > 3<<10 || strings.Contains(o.Why, "\x1b") {
		t.Errorf("%d bytes, or a terminal would obey them", len(o.Why))
	}
	// What ran before is put back.
	d.set(layer(), 1, first)
	d.until(d.now(), "is complete", isComplete(1))
}

func TestTheLastWordsOfAContainerAreKeptByTheClusterItself(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, func(kubetest.Object) kubetest.Start { return kubetest.Start{Waiting: "CrashLoopBackOff", Crashed: 1} })
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	o := d.until(0, "has a pod", func(o kube.Observation) bool { return o.Applied && len(o.Pods) == 1 })
	s.EditStatus(t, "Pod", space, o.Pods[0].Name, func(o kubetest.Object) {
		c := containerOf(&unstructured.Unstructured{Object: o})
		c["lastState"] = map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error", "message": strings.Repeat("noise\n", 50) + "the last word\n"}}
		o["status"].(map[string]any)["containerStatuses"] = []any{c}
	})
	s.Expire(t, space, kube.Name) // and no log of it can be had
	d.until(0, "says it", func(o kube.Observation) bool {
		return o.Stuck && strings.HasSuffix(o.Why, "noise\nthe last word") && strings.Count(o.Why, "\n") == logLines
	})
}

func containerImage(template kubetest.Object) string {
	list, _, _ := unstructured.NestedSlice(template, "spec", "containers")
	c, _ := list[0].(map[string]any)
	image, _ := c["image"].(string)
	return image
}

// What a container could not be made of is in no log, and not in its status either.
func TestAPodThatNeverBeganIsExplainedByTheLastWarning(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, func(kubetest.Object) kubetest.Start { return kubetest.Start{Waiting: "ContainerCreating"} })
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	o := d.until(0, "has a pod", func(o kube.Observation) bool { return len(o.Pods) == 1 })
	for _, p := range o.Pods {
		s.Warn(p.UID, "FailedCreatePodSandBox", "no network yet", "2026-01-02T03:04:05Z")
		s.Warn(p.UID, "FailedMount", "references a \x1bnon-existent secret", "2026-01-02T03:04:09Z")
		s.Warn("another", "FailedMount", "of another pod", "2026-01-02T03:04:30Z")
	}
	s.Expire(t, space, kube.Name)
	o = d.until(0, "is stuck", func(o kube.Observation) bool { return o.Stuck })
	if !strings.HasSuffix(o.Why, "ContainerCreating; FailedMount: references a non-existent secret") {
		t.Errorf("it says %q", o.Why)
	}
}

func TestADaemonSetIsStuckByOurClock(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, func(kubetest.Object) kubetest.Start {
		return kubetest.Start{Waiting: "ImagePullBackOff", Message: "not found"}
	})
	d := open(t, s, quick())
	l := layer()
	l.Kind, l.Replicas = mesh.EntryDaemonSet, 0
	list := objects(t, l, 1, first)
	for _, o := range list {
		if o.Kind() == "DaemonSet" {
			o["metadata"].(map[string]any)["annotations"].(map[string]any)[kube.AnnotationDeadline] = "1"
		}
	}
	d.keeper.Set(d.work(list, 1, first))
	o := d.until(0, "is stuck", func(o kube.Observation) bool { return o.Stuck })
	if !strings.Contains(o.Why, "ImagePullBackOff: not found") {
		t.Errorf("it says %q", o.Why)
	}
}

func TestTheClockOfADaemonSet(t *testing.T) {
	var p progress
	if p.stuck(1, 3, 1, 0, false, time.Hour) {
		t.Error("it is stuck from the start")
	}
	p.moved = time.Now().Add(-2 * time.Hour)
	if !p.stuck(1, 3, 1, 0, false, time.Hour) {
		t.Error("nothing moved for two hours")
	}
	if p.stuck(1, 3, 1, 1, false, time.Hour) {
		t.Error("a pod became ready just now")
	}
	p.stuck(1, 3, 3, 3, false, time.Hour)
	p.moved = time.Now().Add(-2 * time.Hour)
	if p.stuck(1, 3, 3, 2, false, time.Hour) {
		t.Error("what was complete once is not stuck")
	}
	if p.stuck(2, 3, 0, 0, false, time.Hour) {
		t.Error("another release has a clock of its own")
	}
	p.moved = time.Now().Add(-2 * time.Hour)
	if p.stuck(2, 3, 0, 0, true, time.Hour) {
		t.Error("it is paused")
	}
}

func TestWhyAPodIsNotReady(t *testing.T) {
	container := func(state, last any) map[string]any {
		return map[string]any{"containerStatuses": []any{map[string]any{"name": kube.Container, "restartCount": int64(2), "state": state, "lastState": last}}}
	}
	ended := map[string]any{"terminated": map[string]any{"exitCode": int64(78), "reason": "Error"}}
	killed := map[string]any{"terminated": map[string]any{"exitCode": int64(137), "reason": "OOMKilled"}}
	for name, tt := range map[string]struct {
		status map[string]any
		want   string
	}{
		"an image that is not there":  {container(map[string]any{"waiting": map[string]any{"reason": "ErrImagePull", "message": "no such manifest"}}, nil), "ErrImagePull: no such manifest"},
		"one that ends again":         {container(map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off"}}, ended), "ended with code 78 (Error)"},
		"one that has just ended":     {container(killed, nil), "ended with code 137 (OOMKilled)"},
		"one that runs after another": {container(map[string]any{"running": map[string]any{}}, killed), "not ready; before, it ended with code 137 (OOMKilled)"},
		"one that runs": {map[string]any{
			"conditions":        []any{map[string]any{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"}},
			"containerStatuses": []any{map[string]any{"name": kube.Container, "state": map[string]any{"running": map[string]any{}}}},
		}, "running, and not ready since 2026-01-02T03:04:05Z"},
		"no node for it":  {map[string]any{"conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}}}, "Unschedulable: 0/3 nodes"},
		"the kubelet's":   {map[string]any{"reason": "NodeAffinity", "message": "no"}, "NodeAffinity: no"},
		"nothing is said": {nil, "not started"},
		"nonsense":        {map[string]any{"containerStatuses": "x", "conditions": []any{"y", map[string]any{}}}, "not started"},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "p"}, "status": tt.status}})
			if p.Ready || p.Reason != tt.want {
				t.Errorf("it says %q; want %q", p.Reason, tt.want)
			}
		})
	}
}

func TestPodsThatEndedAreNotCounted(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	name := s.Names(t, "Pod", space)[0]
	s.EditStatus(t, "Pod", space, name, func(o kubetest.Object) { o["status"].(map[string]any)["phase"] = "Failed" })
	d.until(0, "has one", func(o kube.Observation) bool { return len(o.Pods) == 1 && o.Ready == 1 })
}

func TestAddressesAreThoseOfTheClusterItself(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	s.EditStatus(t, "Service", space, kube.Name, func(o kubetest.Object) {
		o["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": []any{
			map[string]any{"ip": "203.0.113.7"}, map[string]any{"hostname": "lb.example.net"}, map[string]any{}, "nonsense",
		}}}
	})
	o := d.until(0, "has addresses", func(o kube.Observation) bool { return len(o.Addresses) > 0 })
	port := layer().WithDefaults().Service.Port
	if len(o.Addresses) != 2 || o.Addresses[0] != (mesh.KubeAddress{Host: "203.0.113.7", Port: port, Source: "loadbalancer"}) || o.Addresses[1].Host != "lb.example.net" {
		t.Errorf("they are %+v", o.Addresses)
	}
	l := layer()
	l.Service.Type = mesh.ServiceNodePort
	d.set(l, 1, first)
	o = d.until(d.now(), "has node ports", func(o kube.Observation) bool { return len(o.Addresses) == 2 && o.Addresses[0].Source == "nodeport" })
	if o.Addresses[0].Host != "192.0.2.1" || o.Addresses[1].Host != "192.0.2.2" || o.Addresses[0].Port != 30080 {
		t.Errorf("they are %+v", o.Addresses)
	}
}

func TestWhatTheClusterComplainsAboutIsPassedOn(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	s.EditStatus(t, "Deployment", space, kube.Name, func(o kubetest.Object) {
		o["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}}
	})
	o := d.until(0, "has a problem", func(o kube.Observation) bool { return len(o.Problems) == 1 })
	if o.Problems[0] != "Deployment/meshctl-entry: exceeded quota" {
		t.Errorf("it says %q", o.Problems)
	}
}

func TestAPausedReleaseSaysSo(t *testing.T) {
	t.Parallel()
	_, d := started(t, layer())
	list := objects(t, layer(), 1, first)
	for _, o := range list {
		if o.Kind() == "Deployment" {
			o["spec"].(map[string]any)["paused"] = true
		}
	}
	d.keeper.Set(d.work(list, 1, first))
	d.until(0, "is paused", func(o kube.Observation) bool { return o.Paused && o.Applied })
}

// What somebody else paused is in conflict with nothing, and would stand still unseen.
func TestWhoeverElsePausesAReleaseIsTold(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	pause := func(o kubetest.Object) { o["spec"].(map[string]any)["paused"] = true }
	s.Edit(t, "kubectl-rollout", "Deployment", space, kube.Name, pause)
	o := d.until(d.now(), "says so", func(o kube.Observation) bool { return len(o.Problems) > 0 })
	if want := "Deployment/meshctl-entry: somebody else paused it"; !strings.HasPrefix(o.Problems[0], want) || len(o.Conflicts) != 0 {
		t.Errorf("%q, %v", o.Problems, o.Conflicts)
	}
	from := d.now()
	s.Edit(t, "kubectl-rollout", "Deployment", space, kube.Name, func(o kubetest.Object) { delete(o["spec"].(map[string]any), "paused") })
	d.until(from, "is well again", func(o kube.Observation) bool { return len(o.Problems) == 0 && !o.Paused })
}
