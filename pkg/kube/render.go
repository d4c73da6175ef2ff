package kube

import (
	"errors"
	"fmt"
	"maps"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Render makes the objects of a release in the order in which they are applied:
// what pods need comes before them. It returns ErrInvalid with every fault of the
// layer or the facts. All numbers in the objects are int64.
func Render(r mesh.EntryRelease, f Facts) ([]Object, error) {
	if err := errors.Join(r.Layer.Validate(), f.check()); err != nil {
		return nil, err
	}
	l := r.Layer.WithDefaults()
	config := configData(l, f)
	out := []Object{serviceAccount(f), configMap(config, f)}
	if !l.OpenNetwork {
		out = append(out, networkPolicy(l, f))
	}
	out = append(out, service(l, f))
	pods := podTemplate(l, f, r.Pods, config[configKey])
	if l.Kind == mesh.EntryDaemonSet {
		out = append(out, daemonSet(l, f, pods))
	} else {
		out = append(out, disruptionBudget(l, f), deployment(l, f, pods))
	}
	if l.Autoscale != (mesh.EntryAutoscale{}) {
		out = append(out, autoscaler(l, f))
	}
	return plainAll(out)
}

// Pods is the number by which the pods of a new release are known: that of an
// earlier release with the same pods, so that a change of anything else restarts
// none, otherwise its own.
func Pods(number int64, l mesh.EntryLayer, earlier []mesh.EntryRelease) int64 {
	for i := len(earlier) - 1; i >= 0; i-- {
		if samePods(earlier[i].Layer, l) {
			return earlier[i].Pods
		}
	}
	return number
}

// samePods compares what pods are made from, whatever of it there is.
func samePods(a, b mesh.EntryLayer) bool {
	made := func(l mesh.EntryLayer) string {
		l = l.WithDefaults()
		return fmt.Sprint(l.Kind, podTemplate(l, Facts{}, 0, configData(l, Facts{})[configKey]))
	}
	return made(a) == made(b)
}

// object begins an object of the namespace.
func object(apiVersion, kind string, f Facts) Object {
	return Object{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"name": Name, "namespace": f.Namespace, "labels": labels(f),
			"annotations": map[string]string{AnnotationEpoch: f.Epoch.String()},
		},
	}
}

func (o Object) with(key string, value any) Object {
	o[key] = value
	return o
}

// add puts more into the labels or annotations.
func (o Object) add(field string, more map[string]string) Object {
	maps.Copy(o["metadata"].(map[string]any)[field].(map[string]string), more)
	return o
}

func serviceAccount(f Facts) Object {
	return object("v1", "ServiceAccount", f).with("automountServiceAccountToken", false)
}

func disruptionBudget(l mesh.EntryLayer, f Facts) Object {
	return object("policy/v1", "PodDisruptionBudget", f).with("spec", map[string]any{
		"maxUnavailable": l.Unavailable,
		"selector":       map[string]any{"matchLabels": selector(f.Mesh, f.Cluster)},
		// A pod that does not serve must not keep a node from being drained.
		"unhealthyPodEvictionPolicy": "AlwaysAllow",
	})
}

func autoscaler(l mesh.EntryLayer, f Facts) Object {
	return object("autoscaling/v2", "HorizontalPodAutoscaler", f).with("spec", map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": Name},
		"minReplicas":    l.Autoscale.Min,
		"maxReplicas":    l.Autoscale.Max,
		"metrics": []any{map[string]any{
			"type": "Resource",
			"resource": map[string]any{
				"name":   "cpu",
				"target": map[string]any{"type": "Utilization", "averageUtilization": l.Autoscale.CPU},
			},
		}},
	})
}
