package client

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
)

// plan says what applying would change: the API itself answers, and keeps nothing of
// it.
func (a *applier) plan(ctx context.Context, objects []kube.Object, out *kube.Answer) error {
	if err := a.askVersion(ctx, out); err != nil {
		return err
	}
	list, err := want(objects, a.namespace, kube.Epoch{})
	if err != nil {
		return err
	}
	for _, w := range list {
		c, err := a.planOne(ctx, w)
		if errors.Is(err, errForeign) {
			out.Failure, out.Detail = kube.Foreign, c.Object+" is there, and not ours"
		} else if err != nil {
			return err
		}
		out.Changes = append(out.Changes, c)
	}
	return a.planRemovals(ctx, list, out)
}

func (a *applier) planOne(ctx context.Context, w wanted) (kube.Change, error) {
	c := kube.Change{Object: w.key(), Action: kube.Keep}
	live, err := a.live(ctx, w)
	if err != nil {
		return c, err
	}
	if live != nil && !a.owner.has(live) {
		return c, errForeign
	}
	w.Unstructured = asIf(w, live)
	then, err := a.write(ctx, w, live)
	if conflict, ok := errors.AsType[*conflictError](err); ok {
		c.Action, c.Conflicts = kube.Update, conflict.fields
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if live == nil {
		c.Action = kube.Create
		c.Diff, err = diff(nil, w.Unstructured) // as rendered, without what the cluster adds
		return c, err
	}
	if c.Diff, err = diff(live, then); c.Diff != "" {
		c.Action = kube.Update
	}
	return c, err
}

// asIf is an object as it would be applied by whoever wrote the live one, and with the
// number of pods that is there when an autoscaler would take that over.
func asIf(w wanted, live *unstructured.Unstructured) *unstructured.Unstructured {
	o := w.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", kube.AnnotationEpoch)
	if live == nil {
		return o
	}
	if e := live.GetAnnotations()[kube.AnnotationEpoch]; e != "" {
		note(o, kube.AnnotationEpoch, e)
	}
	if givesAway(w, live) {
		spec, _ := o.Object["spec"].(map[string]any)
		spec["replicas"] = *replicasOf(live)
	}
	return o
}

// planRemovals adds what is ours and would not be wanted any more.
func (a *applier) planRemovals(ctx context.Context, list []wanted, out *kube.Answer) error {
	for _, k := range kinds {
		if k.made {
			continue
		}
		found, err := a.listOurs(ctx, k)
		if err != nil {
			return err
		}
		for _, o := range found {
			gone := !slices.ContainsFunc(list, func(w wanted) bool { return w.key() == ref(&o) })
			if !gone || o.GetDeletionTimestamp() != nil || metav1.GetControllerOf(&o) != nil {
				continue
			}
			text, err := diff(&o, nil)
			if err != nil {
				return err
			}
			out.Changes = append(out.Changes, kube.Change{Object: ref(&o), Action: kube.Remove, Diff: text})
		}
	}
	return nil
}

func (a *applier) listOurs(ctx context.Context, k kind) ([]unstructured.Unstructured, error) {
	ctx, cancel := a.limit(ctx)
	defer cancel()
	got, err := a.of(k).List(ctx, metav1.ListOptions{LabelSelector: a.owner.selector(), Limit: page})
	if err != nil {
		return nil, err
	}
	return got.Items, nil
}
