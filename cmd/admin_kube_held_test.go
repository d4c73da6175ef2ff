package cmd

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// refuseService has a cluster refuse writes to the Service, as one does whose node
// ports are others; it returns what ends that.
func refuseService(api *kubetest.Server) (relent func()) {
	const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"Service \"meshctl-entry\" is invalid: ` +
		`spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"}`
	api.Before(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPatch || !strings.Contains(req.URL.Path, "/services/") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		w.Write([]byte(refusal))
		return true
	})
	return func() { api.Before(nil) }
}

// saysWhatHolds waits for releases that the cluster refuses, or that others hold back:
// each time it is told within seconds what to do.
func saysWhatHolds(t *testing.T, server mgmt.Addresses) {
	const space = "held"
	api := kubetest.New(t)
	api.Roll(t, nil)
	o := &operator{t: t, socket: server.Socket}
	o.run(0, "kube", "add", "held", "--kubeconfig", kubeconfigOf(t, api, space))
	deploy := func(want int, flags ...string) string {
		t.Helper()
		began := time.Now()
		text := o.run(want, append([]string{"entry", "deploy", "--cluster", "held", "--wait", "2m"}, flags...)...)
		if time.Since(began) > time.Minute {
			t.Errorf("%v took %v", flags, time.Since(began))
		}
		return text
	}
	deploy(0, "--image", "registry.example.net/meshctl:1", "--drain-wait", "1s", "--open-network", "--service", "nodeport")
	relent := refuseService(api)
	o.says(deploy(1, "--node-port", "80"), "warning: node port 80: most clusters have 30000-32767 alone", "the cluster refuses Service/"+kube.Name,
		"The range of valid ports is 30000-32767", "hint: let it choose the port: meshctl admin entry deploy --cluster held --node-port 0")
	relent()
	deploy(0, "--node-port", "0")

	api.Scale(t, "helm", space, kube.Name, 5)
	o.says(deploy(1, "--replicas", "3"), "Deployment/"+kube.Name+": field spec.replicas is kept otherwise by helm (scale), and meshctl does not force it",
		"all changes to this object are held back", "hint: decide who keeps it (docs/runbook/kubernetes.md, kube-conflict)")
	o.says(o.run(0, "entry", "status", "held"), "Conflict:", "kept otherwise by helm (scale)")
	// The command of the hint takes the field over.
	for doc := range strings.SplitSeq(o.run(0, "entry", "deploy", "--cluster", "held", "--dry-run"), "---\n") {
		var object kubetest.Object
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			t.Fatal(err)
		}
		if err := api.Apply(t, kube.FieldManager, space, object, true); err != nil {
			t.Fatal(err)
		}
	}
	deploy(0)
	if n := len(api.Names(t, "Pod", space)); n != 3 {
		t.Errorf("there are %d pods, want 3", n)
	}

	var collector sync.WaitGroup
	collector.Go(func() { collectPods(t, api, space) })
	o.run(0, "entry", "uninstall", "held", "--yes", "--wait", "1m")
	collector.Wait()
	o.run(0, "kube", "remove", "held", "--yes")
}
