package kubetest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Start is how a pod comes up. The zero value is that it becomes ready.
type Start struct {
	Waiting string // reason of the container that waits: "ImagePullBackOff"
	Message string
	Crashed int  // how often it ended with code 1
	Late    bool // the controller has waited for its deadline
}

// Roll makes pods of Deployments and DaemonSets from now on, at once: those of a new
// template first, and when they are ready the old ones go. start says how the pods of a
// template come up; nil is well.
func (s *Server) Roll(t testing.TB, start func(template Object) Start) {
	t.Helper()
	var one sync.Mutex
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, func(k key) {
		if k.kind == "Deployment" || k.kind == "DaemonSet" {
			one.Lock()
			defer one.Unlock()
			s.roll(t, k, start)
		}
	})
}

// nodes is how many a DaemonSet has.
const nodes = 3

func (s *Server) roll(t testing.TB, k key, start func(Object) Start) {
	o := s.Get(t, k.kind, k.namespace, k.name)
	if o == nil {
		return
	}
	spec, _ := o["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	hash := fnv.New32a()
	fmt.Fprint(hash, template)
	stem := fmt.Sprintf("%s-%08x", k.name, hash.Sum32())
	desired := nodes
	if n, ok := spec["replicas"].(int64); ok {
		desired = int(n)
	}
	how := Start{}
	if start != nil {
		how = start(template)
	}
	paused, _ := spec["paused"].(bool)
	well := how == Start{}
	made := 0
	if !paused {
		if made = 1; well {
			made = desired
		}
		s.makePods(t, k, stem, template, made, how)
	}
	if well && !paused {
		s.dropOthers(t, k, stem, desired)
	}
	s.setStatus(t, k, o, desired, made, how)
}

func (s *Server) makePods(t testing.TB, k key, stem string, template Object, n int, how Start) {
	meta, _ := template["metadata"].(map[string]any)
	named, _ := meta["labels"].(map[string]any)
	for i := range n {
		name := fmt.Sprintf("%s-%d", stem, i)
		s.Edit(t, "kubelet", "Pod", k.namespace, name, func(pod Object) {
			u := unstructured.Unstructured{Object: pod}
			all := make(map[string]string)
			for key, value := range named {
				all[key] = fmt.Sprint(value)
			}
			all["kubetest/of"] = k.kind + "." + k.name
			u.SetLabels(all)
			pod["spec"] = map[string]any{"nodeName": fmt.Sprintf("node-%d", i%nodes)}
			pod["status"] = podStatus(i, how)
		})
	}
}

func podStatus(i int, how Start) map[string]any {
	ready, container := "True", map[string]any{"name": "entry", "restartCount": how.Crashed, "state": map[string]any{"running": map[string]any{}}}
	if how != (Start{}) {
		ready = "False"
		container["state"] = map[string]any{"waiting": map[string]any{"reason": how.Waiting, "message": how.Message}}
	}
	if how.Crashed > 0 {
		container["lastState"] = map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error"}}
	}
	return map[string]any{
		"phase": "Running", "hostIP": fmt.Sprintf("192.0.2.%d", 1+i%nodes), "podIP": fmt.Sprintf("10.244.0.%d", 1+i),
		"startTime":         "2026-01-02T03:04:05Z",
		"conditions":        []any{map[string]any{"type": "Ready", "status": ready}},
		"containerStatuses": []any{container},
	}
}

// dropOthers removes the pods of other templates, and those beyond the number.
func (s *Server) dropOthers(t testing.TB, k key, stem string, desired int) {
	var keep []string
	for i := range desired {
		keep = append(keep, fmt.Sprintf("%s-%d", stem, i))
	}
	sel := labels.SelectorFromSet(labels.Set{"kubetest/of": k.kind + "." + k.name})
	pods, _ := s.list(resourceOf(t, "Pod"), k.namespace, sel)
	for _, p := range pods {
		if !slices.Contains(keep, p.GetName()) {
			s.Delete(t, "Pod", k.namespace, p.GetName())
		}
	}
}

func (s *Server) setStatus(t testing.TB, k key, o Object, desired, updated int, how Start) {
	u := unstructured.Unstructured{Object: o}
	available, progress, reason := 0, "True", "ReplicaSetUpdated"
	switch {
	case how == Start{}:
		available, reason = updated, "NewReplicaSetAvailable"
	case how.Late:
		progress, reason = "False", "ProgressDeadlineExceeded"
	}
	s.EditStatus(t, k.kind, k.namespace, k.name, func(now Object) {
		status, _ := now["status"].(map[string]any)
		status = maps.Clone(status)
		if status == nil {
			status = make(map[string]any)
		}
		status["observedGeneration"] = u.GetGeneration()
		if k.kind == "DaemonSet" {
			status["desiredNumberScheduled"], status["updatedNumberScheduled"], status["numberAvailable"] = desired, updated, available
		} else {
			status["updatedReplicas"], status["availableReplicas"] = updated, available
			status["conditions"] = []any{map[string]any{"type": "Progressing", "status": progress, "reason": reason}}
		}
		now["status"] = status
	})
}

// Expire says of a Deployment that it made no progress for its deadline.
func (s *Server) Expire(t testing.TB, namespace, name string) {
	t.Helper()
	s.EditStatus(t, "Deployment", namespace, name, func(o Object) {
		status, _ := o["status"].(map[string]any)
		if status == nil {
			status = map[string]any{"observedGeneration": (&unstructured.Unstructured{Object: o}).GetGeneration()}
		}
		status["conditions"] = []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}
		o["status"] = status
	})
}
