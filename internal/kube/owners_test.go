//go:build kube

package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
)

// TestAutoscalerKeepsItsNumber hands the number of pods to an autoscaler: what it
// chose is left alone, also while other things are applied.
func TestAutoscalerKeepsItsNumber(t *testing.T) {
	e := theEntries(t)
	lowest := 2
	stop := make(chan struct{})
	watched := make(chan int, 1)
	go func() { watched <- e.lowestReplicas(stop) }()
	t.Log(e.admin(t, "entry", "deploy", "--autoscale", "2-5@70%"))
	// No metrics are served here; this is what an autoscaler does with them.
	e.change(t, "Deployment/scale", "kube-controller-manager", object{"spec": object{"replicas": 3}})
	e.wait(t, "three pods are ready", func() error { return e.readyPods(t, 3) })
	t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9003"))
	if n := e.object(t, "Deployment").number("spec", "replicas"); n != 3 {
		t.Errorf("%d replicas; want the 3 of the autoscaler", n)
	}
	if v, err := e.view(t.Context()); err != nil || len(v.State.Conflicts) > 0 {
		t.Errorf("conflicts %v, %v", v.State, err)
	}
	t.Log(e.admin(t, "entry", "deploy", "--autoscale", "off", "--replicas", "2"))
	close(stop)
	if got := <-watched; got < lowest {
		t.Errorf("there were %d replicas for a moment", got)
	}
	e.complete(t)
}

// lowestReplicas looks at the number of wanted pods until stop.
func (e *Entries) lowestReplicas(stop <-chan struct{}) int {
	lowest := 1000
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		o, err := e.Kube.admin.get(context.Background(), entryPath("Deployment"))
		if err == nil {
			lowest = min(lowest, o.number("spec", "replicas"))
		}
		select {
		case <-stop:
			return lowest
		case <-tick.C:
		}
	}
}

func (e *Entries) readyPods(t testing.TB, n int) error {
	ready := 0
	for _, p := range e.pods(t) {
		if status, _ := p.condition("Ready"); status == "True" {
			ready++
		}
	}
	if ready != n {
		return fmt.Errorf("%d are ready", ready)
	}
	return nil
}

// TestConflictIsSaid has another manager own a field that management keeps: it is
// said who, and nothing is forced.
func TestConflictIsSaid(t *testing.T) {
	e := theEntries(t)
	live := e.object(t, "Service")
	const other = "somebody-else"
	if err := e.Kube.admin.apply(t.Context(), object{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": kube.Name, "namespace": entryNS},
		"spec": object{"externalTrafficPolicy": "Cluster"},
	}, other, "&force=true"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	e.wait(t, "the conflict is said", func() error {
		v, err := e.view(t.Context())
		if err != nil {
			return err
		}
		for _, c := range v.State.Conflicts {
			if c.Manager == other && strings.Contains(c.Object, "Service") && strings.Contains(c.Field, "externalTrafficPolicy") {
				return nil
			}
		}
		return fmt.Errorf("conflicts %v, problems %v", v.State.Conflicts, v.State.Problems)
	})
	took := time.Since(begin)
	if got := e.object(t, "Service").text("spec", "externalTrafficPolicy"); got != "Cluster" {
		t.Errorf("it was forced to %s", got)
	}
	out := e.admin(t, "entry", "status")
	if !strings.Contains(out, other) || !strings.Contains(out, kube.FieldManager) {
		t.Errorf("the status does not name both managers:\n%s", out)
	}
	record(t, "another manager keeps a field otherwise", "-", took, "both managers were named")
	if err := e.Kube.admin.apply(t.Context(), object{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": kube.Name, "namespace": entryNS},
		"spec": object{"externalTrafficPolicy": live.text("spec", "externalTrafficPolicy")},
	}, other, "&force=true"); err != nil {
		t.Fatal(err)
	}
	e.wait(t, "the conflict is over", func() error {
		v, err := e.view(t.Context())
		if err == nil && len(v.State.Conflicts) > 0 {
			err = fmt.Errorf("conflicts %v", v.State.Conflicts)
		}
		return err
	})
}
