package kube

import (
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// surge is how many pods may be there beyond those that should be: none is taken
// away before another serves.
const surge = "25%"

// spare is how long a pod has beyond its drain before it is killed.
const spare = 10 * time.Second

func deployment(l mesh.EntryLayer, f Facts, pods map[string]any) Object {
	spec := map[string]any{
		"selector":                map[string]any{"matchLabels": selector(f.Mesh, f.Cluster)},
		"template":                pods,
		"minReadySeconds":         seconds(l.DrainWait),
		"progressDeadlineSeconds": seconds(l.Deadline),
		"revisionHistoryLimit":    mesh.MaxReleases,
		"strategy": map[string]any{
			"type":          "RollingUpdate",
			"rollingUpdate": map[string]any{"maxSurge": surge, "maxUnavailable": 0},
		},
	}
	if l.Autoscale == (mesh.EntryAutoscale{}) {
		spec["replicas"] = l.Replicas
	}
	if f.Paused {
		spec["paused"] = true
	}
	return object("apps/v1", "Deployment", f).with("spec", spec)
}

// daemonSet has no way to pause as a Deployment has: pods that are there stay until
// somebody deletes them.
func daemonSet(l mesh.EntryLayer, f Facts, pods map[string]any) Object {
	strategy := map[string]any{
		"type":          "RollingUpdate",
		"rollingUpdate": map[string]any{"maxSurge": surge, "maxUnavailable": 0},
	}
	if f.Paused {
		strategy = map[string]any{"type": "OnDelete"}
	}
	deadline := map[string]string{AnnotationDeadline: strconv.FormatInt(seconds(l.Deadline), 10)}
	return object("apps/v1", "DaemonSet", f).add("annotations", deadline).with("spec", map[string]any{
		"selector":             map[string]any{"matchLabels": selector(f.Mesh, f.Cluster)},
		"template":             pods,
		"minReadySeconds":      seconds(l.DrainWait),
		"revisionHistoryLimit": mesh.MaxReleases,
		"updateStrategy":       strategy,
	})
}

func podTemplate(l mesh.EntryLayer, f Facts, release int64, config string) map[string]any {
	named := labels(f)
	named[LabelRelease] = strconv.FormatInt(release, 10)
	spec := map[string]any{
		"serviceAccountName":           Name,
		"automountServiceAccountToken": false,
		// Variables named after services would be read as settings.
		"enableServiceLinks":            false,
		"terminationGracePeriodSeconds": seconds(l.DrainWait) + seconds(l.DrainLimit) + seconds(mesh.Duration(spare)),
		"priorityClassName":             l.PriorityClass,
		"securityContext": map[string]any{
			"runAsNonRoot": true, "runAsUser": userNumber, "runAsGroup": userNumber,
			"seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
		"containers": []any{container(l)},
		"volumes":    volumes(f),
	}
	if l.PullSecret != "" {
		spec["imagePullSecrets"] = []any{map[string]any{"name": l.PullSecret}}
	}
	if len(l.NodeSelector) > 0 {
		spec["nodeSelector"] = l.NodeSelector
	}
	if len(l.Tolerations) > 0 {
		spec["tolerations"] = tolerations(l.Tolerations)
	}
	if l.Kind == mesh.EntryDeployment {
		spec["topologySpreadConstraints"] = []any{spread("topology.kubernetes.io/zone", f), spread("kubernetes.io/hostname", f)}
	}
	return map[string]any{
		"metadata": map[string]any{"labels": named, "annotations": map[string]string{AnnotationConfig: configHash(config)}},
		"spec":     spec,
	}
}

func container(l mesh.EntryLayer) map[string]any {
	return map[string]any{
		"name":  Container,
		"image": l.Image,
		"args":  []any{"entry", "run", "--config", configDir + "/" + configKey},
		"env":   []any{map[string]any{"name": "GOMEMLIMIT", "value": strconv.FormatInt(memoryLimit(l), 10)}},
		"ports": []any{
			map[string]any{"name": clientsPort, "containerPort": clientsNumber, "protocol": "TCP"},
			map[string]any{"name": healthPort, "containerPort": healthNumber, "protocol": "TCP"},
		},
		"resources": map[string]any{
			"requests": map[string]any{"cpu": l.Resources.CPU, "memory": l.Resources.Memory},
			"limits":   map[string]any{"memory": l.Resources.MemoryLimit},
		},
		// A pod that waits for management to join is not helped by a restart.
		"startupProbe":   probe("/healthz", 1, 3600),
		"livenessProbe":  probe("/healthz", 10, 6),
		"readinessProbe": probe("/readyz", 2, 2),
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{
			map[string]any{"name": "config", "mountPath": configDir, "readOnly": true},
			map[string]any{"name": "identity", "mountPath": tokenDir, "readOnly": true},
			map[string]any{"name": "state", "mountPath": stateDir},
		},
		// What it says last stands in the status of the pod when it fails.
		"terminationMessagePolicy": "FallbackToLogsOnError",
	}
}

// memoryLimit is what Go's collector tries to keep below: nine tenths of what the
// container is killed at.
func memoryLimit(l mesh.EntryLayer) int64 {
	n, err := mesh.ParseQuantity(l.Resources.MemoryLimit)
	if err != nil {
		return 0 // Validate refuses it
	}
	return n / 1000 / 10 * 9
}

func probe(path string, period, failures int) map[string]any {
	return map[string]any{
		"httpGet":       map[string]any{"path": path, "port": healthPort},
		"periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 2,
	}
}

func volumes(f Facts) []any {
	token := map[string]any{"path": tokenName, "audience": Audience(f.Mesh), "expirationSeconds": tokenSeconds}
	return []any{
		map[string]any{"name": "config", "configMap": map[string]any{"name": Name}},
		map[string]any{"name": "identity", "projected": map[string]any{
			"sources": []any{map[string]any{"serviceAccountToken": token}},
		}},
		// The key is in memory alone, and a restarted container finds it again.
		map[string]any{"name": "state", "emptyDir": map[string]any{"medium": "Memory", "sizeLimit": "16Mi"}},
	}
}

// spread prefers, and does not insist: a pod too close is better than none.
func spread(topology string, f Facts) map[string]any {
	return map[string]any{
		"maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": "ScheduleAnyway",
		"labelSelector":  map[string]any{"matchLabels": selector(f.Mesh, f.Cluster)},
		"matchLabelKeys": []any{"pod-template-hash"},
	}
}

func tolerations(in []mesh.EntryToleration) []any {
	out := make([]any, len(in))
	for i, t := range in {
		one := map[string]any{"operator": "Exists"}
		if t.Key != "" {
			one["key"] = t.Key
		}
		if t.Value != "" {
			one["operator"], one["value"] = "Equal", t.Value
		}
		if t.Effect != "" {
			one["effect"] = t.Effect
		}
		out[i] = one
	}
	return out
}

// seconds rounds up.
func seconds(d mesh.Duration) int64 {
	return int64((time.Duration(d) + time.Second - 1) / time.Second)
}
