package client

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// pods are those that serve, will, or drain, by name.
func (s *session) pods() []mesh.KubePod {
	list, _ := s.cache.list("Pod")
	var out []mesh.KubePod
	for _, o := range list {
		if phase := textAt(o, "status", "phase"); phase == "Succeeded" || phase == "Failed" {
			continue // it was evicted, or its node ended; another stands for it
		}
		out = append(out, podOf(o))
	}
	return out
}

// few are the pods that are described one by one, and the UIDs of the others. Where
// there are too many, those that are not well come first.
func few(pods []mesh.KubePod) (described []mesh.KubePod, more []string) {
	if len(pods) <= mesh.MaxKubePods {
		return pods, nil
	}
	pods = slices.Clone(pods)
	well := func(p mesh.KubePod) int {
		if p.Ready && !p.Ending {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(pods, func(a, b mesh.KubePod) int { return well(a) - well(b) })
	for _, p := range pods[mesh.MaxKubePods:] {
		more = append(more, p.UID)
	}
	return pods[:mesh.MaxKubePods], more
}

func podOf(o *unstructured.Unstructured) mesh.KubePod {
	p := mesh.KubePod{
		Name: o.GetName(), UID: string(o.GetUID()), Release: releaseOf(o.Object, "metadata", "labels"),
		Node: textAt(o, "spec", "nodeName"), HostIP: textAt(o, "status", "hostIP"), IP: textAt(o, "status", "podIP"),
		Ready:  conditionOf(o, "Ready")["status"] == "True",
		Ending: o.GetDeletionTimestamp() != nil,
	}
	p.Started, _ = time.Parse(time.RFC3339, textAt(o, "status", "startTime"))
	c := containerOf(o)
	if n, ok := c["restartCount"].(int64); ok {
		p.Restarts = int(n)
	}
	if !p.Ready && !p.Ending {
		p.Reason = printable(reasonOf(o, c), 300)
	}
	return p
}

// containerOf is the status of the one container; nil before there is one.
func containerOf(o *unstructured.Unstructured) map[string]any {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "containerStatuses")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["name"] == kube.Container {
			return c
		}
	}
	return nil
}

// reasonOf says why a pod is not ready.
func reasonOf(o *unstructured.Unstructured, c map[string]any) string {
	waiting := stateOf(c, "state", "waiting")
	ended := stateOf(c, "lastState", "terminated")
	if now := stateOf(c, "state", "terminated"); now != nil {
		ended = now
	}
	scheduled := conditionOf(o, "PodScheduled")
	switch {
	case waiting["reason"] == "CrashLoopBackOff" && ended != nil, waiting == nil && stateOf(c, "state", "terminated") != nil:
		return exitOf(ended)
	case waiting != nil:
		return reason(waiting)
	case scheduled["status"] == "False":
		return reason(scheduled)
	case stateOf(c, "state", "running") != nil && ended != nil:
		return "not ready; before, it " + exitOf(ended)
	case stateOf(c, "state", "running") != nil:
		return "running, and not ready" + since(conditionOf(o, "Ready"))
	}
	if text := textAt(o, "status", "reason"); text != "" {
		return text + ": " + textAt(o, "status", "message")
	}
	return "not started"
}

func stateOf(c map[string]any, when, what string) map[string]any {
	s, _ := c[when].(map[string]any)
	m, _ := s[what].(map[string]any)
	return m
}

func reason(m map[string]any) string {
	word, _ := m["reason"].(string)
	message, _ := m["message"].(string)
	if message == "" {
		return word
	}
	return word + ": " + message
}

func exitOf(m map[string]any) string {
	code, _ := m["exitCode"].(int64)
	word, _ := m["reason"].(string)
	return fmt.Sprintf("ended with code %d (%s)", code, word)
}

func since(c map[string]any) string {
	at, _ := c["lastTransitionTime"].(string)
	if at == "" {
		return ""
	}
	return " since " + at
}

func textAt(o *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, fields...)
	return s
}

// worst is the pod of a release that says most about why it is not ready; nil is none.
func worst(pods []mesh.KubePod, release int64) *mesh.KubePod {
	bad := slices.DeleteFunc(slices.Clone(pods), func(p mesh.KubePod) bool { return p.Ready || p.Ending || p.Release != release })
	if len(bad) == 0 {
		return nil
	}
	i := 0
	for j, p := range bad {
		if p.Restarts > bad[i].Restarts {
			i = j
		}
	}
	return &bad[i]
}
