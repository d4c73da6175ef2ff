package client

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// figures are how far a Deployment or DaemonSet is, in its own words.
type figures struct {
	current   bool // they are of what is there now, not of what was before
	desired   int
	updated   int
	available int
	paused    bool
	stuck     bool
}

func figuresOf(o *unstructured.Unstructured) figures {
	at := func(fields ...string) int {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...)
		return int(n)
	}
	f := figures{current: int64(at("status", "observedGeneration")) >= o.GetGeneration()}
	if o.GetKind() == "DaemonSet" {
		f.desired, f.updated, f.available = at("status", "desiredNumberScheduled"), at("status", "updatedNumberScheduled"), at("status", "numberAvailable")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
		f.paused = kind == "OnDelete"
		return f
	}
	f.desired, f.updated, f.available = at("spec", "replicas"), at("status", "updatedReplicas"), at("status", "availableReplicas")
	f.paused, _, _ = unstructured.NestedBool(o.Object, "spec", "paused")
	c := conditionOf(o, "Progressing")
	f.stuck = f.current && c["status"] == "False" && c["reason"] == "ProgressDeadlineExceeded"
	return f
}

// conditionOf is a condition of an object's status; nil is none.
func conditionOf(o *unstructured.Unstructured, kind string) map[string]any {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// progress is the clock of a DaemonSet, which has none of its own.
type progress struct {
	release  int64
	ready    int
	updated  int
	complete bool // this release was, once
	moved    time.Time
}

// stuck says whether nothing has moved for the deadline, before the release was
// complete for the first time.
func (p *progress) stuck(release int64, desired, updated, ready int, paused bool, deadline time.Duration) bool {
	if release != p.release {
		*p = progress{release: release, moved: time.Now()}
	}
	if updated > p.updated || ready > p.ready || paused {
		p.moved = time.Now()
	}
	p.updated, p.ready = updated, ready
	p.complete = p.complete || desired > 0 && updated >= desired && ready >= desired
	return !p.complete && time.Since(p.moved) > deadline
}
