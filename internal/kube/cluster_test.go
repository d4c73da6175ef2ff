//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestCluster shows that the cluster is one: pods run on both workers and answer
// through a port of the workers and through the balancer, go on while the API
// server is away, and are replaced when a worker loses its power.
func TestCluster(t *testing.T) {
	k := theKube(t)
	begin := time.Now()
	step := func(what string) { t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), what) }

	const ns, name = "cluster", "pod"
	k.deployPods(t, ns, name, 2)
	k.WaitFor(t, "two pods are ready", func() error { return k.ready(t.Context(), ns, name, 2) })
	step("two pods are ready")

	addr := k.Balanced(t, ns, name, 2)
	k.asked(t, at(addr, 80))
	svc, err := k.admin.get(t.Context(), "/api/v1/namespaces/"+ns+"/services/"+name)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range k.Nodes {
		k.asked(t, at(n.Addr, svc.number("spec", "ports", 0, "nodePort")))
	}
	step("they answer through the balancer and at both workers")

	k.StopAPIServer(t)
	for range 10 {
		k.asked(t, at(addr, 80))
	}
	k.StartAPIServer(t)
	step("they answered while the API server was away")

	k.KillNode(t, "w2")
	took := k.WaitNode(t, "w2", "Unknown")
	step("a worker without power is not Ready")
	t.Logf("after %v", took)
	k.ReplaceNode(t, "w2")
	k.WaitFor(t, "two pods are ready", func() error { return k.ready(t.Context(), ns, name, 2) })
	k.Balanced(t, ns, name, 2)
	step("its replacement has a pod")

	k.WaitFor(t, "a pod tells its log", func() error {
		pods, err := k.Pods(t.Context(), ns, "app="+name)
		if err != nil {
			return err
		}
		_, err = k.admin.raw(t.Context(), http.MethodGet, "/api/v1/namespaces/"+ns+"/pods/"+pods[0].text("metadata", "name")+"/log", "", nil)
		return err
	})
	t.Logf("drained within %v", k.DrainNode(t, "w1").Round(time.Millisecond))
	k.Cordon(t, "w1", false)
	if err := k.admin.delete(t.Context(), "/api/v1/namespaces/"+ns); err != nil {
		t.Fatal(err)
	}
	step("drained and removed")
}

// deployPods runs our small program behind a balancer.
func (k *Kube) deployPods(t testing.TB, ns, name string, replicas int) {
	t.Helper()
	labels := object{"app": name}
	for path, o := range map[string]object{
		"/api/v1/namespaces": {"metadata": object{"name": ns}},
		"/apis/apps/v1/namespaces/" + ns + "/deployments": {"metadata": object{"name": name}, "spec": object{
			"replicas": replicas, "selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": object{
				"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
				"topologySpreadConstraints": []object{{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
					"whenUnsatisfiable": "DoNotSchedule", "labelSelector": object{"matchLabels": labels}, "nodeTaintsPolicy": "Honor"}},
				"tolerations": []object{{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}},
				"containers": []object{{"name": "pod", "image": podImage, "imagePullPolicy": "Never",
					"readinessProbe": object{"httpGet": object{"port": 8080}, "periodSeconds": 1}}}}}}},
		"/api/v1/namespaces/" + ns + "/services": {"metadata": object{"name": name}, "spec": object{
			"type": "LoadBalancer", "loadBalancerClass": balancerClass, "externalTrafficPolicy": "Local",
			"selector": labels, "ports": []object{{"port": 80, "targetPort": 8080}}}},
	} {
		k.WaitFor(t, "make "+path, func() error { // the namespace comes first
			_, err := k.admin.create(t.Context(), path, o)
			if there, ok := errors.AsType[*statusError](err); ok && there.code == http.StatusConflict {
				return nil // the answer to an earlier try was lost
			}
			return err
		})
	}
}

// ready wants n pods that are ready and run on n different workers.
func (k *Kube) ready(ctx context.Context, ns, app string, n int) error {
	pods, err := k.Pods(ctx, ns, "app="+app)
	if err != nil {
		return err
	}
	nodes := map[string]bool{}
	for _, p := range pods {
		if status, _ := p.condition("Ready"); status == "True" && p.text("metadata", "deletionTimestamp") == "" {
			nodes[p.text("spec", "nodeName")] = true
		}
	}
	if len(nodes) != n {
		return fmt.Errorf("ready on %d workers of %d", len(nodes), n)
	}
	return nil
}

// asked wants an answer of a pod.
func (k *Kube) asked(t testing.TB, addr string) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: k.balancer.Dial}}
	k.WaitFor(t, addr+" answers", func() error {
		resp, err := client.Get("http://" + addr)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(text), " answers ") {
			err = fmt.Errorf("it says %q", text)
		}
		return err
	})
}
