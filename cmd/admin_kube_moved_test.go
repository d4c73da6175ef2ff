package cmd

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// movesACluster adds one cluster under two URLs, which is refused, changes the number
// of pods after a release that failed, beyond what there is room for, and takes the
// entries to another cluster.
func movesACluster(t *testing.T, server mgmt.Addresses) {
	const space, good, bad = "moves", "registry.example.net/meshctl:1", "registry.example.net/meshctl:broken"
	var full atomic.Bool
	api, next := kubetest.New(t), kubetest.New(t)
	api.Roll(t, func(template kubetest.Object) kubetest.Start {
		switch {
		case image(template) == bad:
			return kubetest.Start{Waiting: "ImagePullBackOff", Message: "there is no such image", Late: true}
		case full.Load():
			return kubetest.Start{Waiting: "Unschedulable", Message: "0/3 nodes are available"}
		}
		return kubetest.Start{}
	})
	next.Roll(t, nil)
	o := &operator{t: t, socket: server.Socket}
	run, says := o.run, o.says
	run(0, "kube", "add", "paris", "--kubeconfig", kubeconfigOf(t, api, space))
	url := api.URL
	api.URL = strings.Replace(url, "127.0.0.1", "localhost", 1)
	says(run(1, "kube", "add", "lyon", "--tls-server-name", "example.com", "--kubeconfig", kubeconfigOf(t, api, space)), "is that of cluster paris")
	api.URL = url

	run(0, "entry", "deploy", "--cluster", "paris", "--image", good, "--drain-wait", "1s", "--deadline", "10s", "--open-network", "--wait", "1m")
	run(1, "entry", "image", bad, "--cluster", "paris", "--wait", "1m")
	says(run(0, "entry", "scale", "3", "--cluster", "paris", "--wait", "1m"),
		"release 2 failed and is not tried again; this changes the number of release 1", "cluster paris runs release 3\n")
	says(run(0, "entry", "rollout", "history", "--cluster", "paris"), "failed")
	full.Store(true)
	says(run(1, "entry", "scale", "5", "--cluster", "paris", "--wait", "1m"), "of 5 pods are ready, and no more come: pod "+kube.Name, "Unschedulable: 0/3 nodes are available", "hint: nothing is put back")
	says(run(0, "entry", "status", "paris"), "Lacking:", "release 4 lacking")
	full.Store(false)

	config := kubeconfigOf(t, next, space)
	says(run(1, "kube", "set", "paris", "--kubeconfig", config), "this leads to another cluster", "hint: take the entries away first", "--moved")
	run(0, "kube", "set", "paris", "--kubeconfig", config, "--moved")
	says(run(0, "entry", "rollout", "status", "--cluster", "paris", "--wait", "1m"), "cluster paris runs release 4\n")
	if n := len(next.Names(t, "Pod", space)); n != 5 {
		t.Errorf("%d pods are in the other cluster, want 5", n)
	}
	var collector sync.WaitGroup
	collector.Go(func() { collectPods(t, next, space) })
	run(0, "entry", "uninstall", "paris", "--yes", "--wait", "1m")
	collector.Wait()
	says(run(0, "kube", "show", "paris"), "looked at")
	run(0, "kube", "remove", "paris", "--yes")
}
