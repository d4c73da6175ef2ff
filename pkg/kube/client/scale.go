package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The number of pods has an owner: us, or an autoscaler. A field that its last owner
// leaves out of what it applies falls back to its default, which is one pod. So a
// second manager takes the number as it is, then we leave it out, and the autoscaler
// takes it over with its first change. noteScaled remembers on the object that the
// number was given away, so that we may take it back.

// begin makes a Deployment with the fewest pods that its autoscaler allows: it would
// begin with one.
func (a *applier) begin(ctx context.Context, w wanted) (*unstructured.Unstructured, error) {
	o := w.DeepCopy()
	if err := unstructured.SetNestedField(o.Object, w.begin, "spec", "replicas"); err != nil {
		return nil, fmt.Errorf("client: begin %s: %w", w.key(), err)
	}
	return a.patch(ctx, w.kind, o, metav1.ApplyOptions{FieldManager: manager})
}

// givesAway: the number was ours, and is not any more.
func givesAway(w wanted, live *unstructured.Unstructured) bool {
	return w.kind.name == "Deployment" && replicasOf(w.Unstructured) == nil && replicasOf(live) != nil &&
		step(step(fieldsOf(live, manager), "f:f:spec"), "f:f:replicas") != nil
}

// giveAway has the number applied, as it is, by the second manager.
func (a *applier) giveAway(ctx context.Context, w wanted, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.GetAPIVersion(),
		"kind":       w.GetKind(),
		"metadata": map[string]any{
			"name": w.GetName(), "namespace": w.GetNamespace(), "resourceVersion": live.GetResourceVersion(),
		},
		"spec": map[string]any{"replicas": *replicasOf(live)},
	}}
	return a.patch(ctx, w.kind, o, metav1.ApplyOptions{FieldManager: handover})
}

// sharesNumber: the number was given away, is to be ours again, and others still
// have it.
func sharesNumber(w wanted, live *unstructured.Unstructured) bool {
	if w.kind.name != "Deployment" || replicasOf(w.Unstructured) == nil || live.GetAnnotations()[noteScaled] == "" {
		return false
	}
	for _, m := range live.GetManagedFields() {
		var set map[string]any
		if m.Manager == manager || m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		if step(step(set, "f:f:spec"), "f:f:replicas") != nil {
			return true
		}
	}
	return false
}

// takeBack applies with a number of our own again. It is the one field that is ever
// taken from another manager: from the autoscaler that we made and no longer want, and
// only if nothing else is in conflict. While both want the same number they share it,
// and the note stays for the day on which they do not.
func (a *applier) takeBack(ctx context.Context, w wanted, onto *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	noted := onto.DeepCopy()
	note(noted, noteScaled, "autoscaler")
	now, err := a.patch(ctx, w.kind, noted, metav1.ApplyOptions{FieldManager: manager})
	conflict, ok := errors.AsType[*conflictError](err)
	if !ok {
		return now, err
	}
	for _, c := range conflict.fields {
		if c.Field != "spec.replicas" {
			return nil, err
		}
	}
	return a.patch(ctx, w.kind, onto, metav1.ApplyOptions{FieldManager: manager, Force: true})
}
