package cmd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// kubeconfigOf writes a kubeconfig for a server, with its CA in a file beside it.
func kubeconfigOf(t *testing.T, s *kubetest.Server, namespace string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": %q}}],
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority": "ca.pem"}}],
"users": [{"name": "u", "user": {"token": %q}}]}`, namespace, s.URL, s.Token)
	for name, text := range map[string]string{"kubeconfig": config, "ca.pem": s.CA} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "kubeconfig")
}

// image is that of a pod template.
func image(template kubetest.Object) string {
	spec, _ := template["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	first, _ := containers[0].(map[string]any)
	name, _ := first["image"].(string)
	return name
}

// collectPods does what a cluster does once a Deployment is gone.
func collectPods(t *testing.T, api *kubetest.Server, space string) {
	for end := time.Now().Add(time.Minute); api.Get(t, "Deployment", space, kube.Name) != nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	for _, pod := range api.Names(t, "Pod", space) {
		api.Delete(t, "Pod", space, pod)
	}
}

// operator runs commands of admin, and keeps all that they show.
type operator struct {
	t      *testing.T
	socket string
	all    bytes.Buffer
}

// run wants a command to end with a code, and returns what it shows.
func (o *operator) run(want int, args ...string) string {
	o.t.Helper()
	var out, errs bytes.Buffer
	code := Main(append([]string{"admin", "--socket", o.socket}, args...), strings.NewReader(""), &out, &errs)
	text := out.String() + errs.String()
	o.all.WriteString(text)
	if code != want {
		o.t.Fatalf("%v: exit %d, want %d:\n%s", args, code, want, text)
	}
	return text
}

func (o *operator) says(text string, want ...string) {
	o.t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			o.t.Errorf("no %q in:\n%s", w, text)
		}
	}
}

// deploysEntries goes the whole way: a cluster is added, entries are deployed,
// changed, changed for the worse, put back and taken away, by the child of a server.
func deploysEntries(t *testing.T, server mgmt.Addresses) {
	const space, good, bad = "edge", "registry.example.net/meshctl:1", "registry.example.net/meshctl:broken"
	api := kubetest.New(t)
	api.Roll(t, func(template kubetest.Object) kubetest.Start {
		if image(template) == bad {
			return kubetest.Start{Waiting: "ImagePullBackOff", Message: "there is no such image", Late: true}
		}
		return kubetest.Start{}
	})
	config := kubeconfigOf(t, api, space)
	o := &operator{t: t, socket: server.Socket}
	run, says := o.run, o.says
	api.Deny("create", "tokenreviews", true)
	says(run(1, "kube", "add", "live", "--kubeconfig", config), "tokenreviews", "hint: somebody who administers the cluster")
	api.Deny("create", "tokenreviews", false)
	run(0, "kube", "add", "live", "--kubeconfig", config)
	says(run(0, "kube", "check", "live"), "Version:", kubetest.Version)
	flags := []string{"--cluster", "live", "--image", good, "--drain-wait", "1s", "--deadline", "10s", "--open-network"}
	says(run(0, append([]string{"entry", "plan"}, flags...)...), "create Deployment/"+kube.Name, "create Service/"+kube.Name)
	if d := api.Get(t, "Deployment", space, kube.Name); d != nil {
		t.Fatal("a plan made a Deployment")
	}
	says(run(0, append([]string{"entry", "deploy", "--wait", "1m"}, flags...)...), "cluster live runs release 1\n", "no address yet")
	api.EditStatus(t, "Service", space, kube.Name, func(o kubetest.Object) {
		o["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "127.0.0.1"}}}}
	})
	says(run(0, "entry", "plan", "--cluster", "live"), "nothing would change")
	says(run(0, "entry", "scale", "3", "--cluster", "live"), "cluster live runs release 2\n")
	says(run(1, "entry", "image", bad, "--cluster", "live"), "release 3 failed: pod "+kube.Name, "ImagePullBackOff", "hint: release 2 is put back")
	status := run(0, "entry", "status", "live")
	for end := time.Now().Add(30 * time.Second); !strings.Contains(status, "3 ready") && time.Now().Before(end); <-time.After(200 * time.Millisecond) {
		status = run(0, "entry", "status", "live") // it is put back as fast as the cluster does it
	}
	says(status, "release 2 is put back", "Failed:", "3 ready")
	for _, args := range [][]string{{"status", "nowhere"}, {"uninstall", "nowhere"}, {"scale", "2", "--cluster", "nowhere"}, {"rollout", "pause", "--cluster", "nowhere"}} {
		says(run(1, append([]string{"entry"}, args...)...), "hint: see `meshctl admin kube list`")
	}
	says(run(0, "entry", "rollout", "undo", "--cluster", "live"), "cluster live runs release 4\n")
	var v admin.KubeView
	if err := json.Unmarshal([]byte(run(0, "kube", "show", "live", "-o", "json")), &v); err != nil || v.State == nil || v.State.Ran != 4 || len(v.State.Pods) != 3 {
		t.Errorf("at the end it is %+v, %v", v.State, err)
	}
	says(run(0, "status"), "live: 3/3 ready, release 4 complete")
	says(run(1, "kube", "remove", "live", "--yes"), "entry uninstall live;")
	var collector sync.WaitGroup
	collector.Go(func() { collectPods(t, api, space) })
	says(run(0, "entry", "uninstall", "live", "--yes", "--wait", "1m"), "cluster live has no entries any more")
	collector.Wait()
	if left := api.Names(t, "Service", space); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	run(0, "kube", "remove", "live", "--yes")
	run(0, "audit", "list", "-o", "json")
	run(0, "events", "--limit", "0")
	for what, secret := range map[string]string{"the token": api.Token, "the token in base64": base64.StdEncoding.EncodeToString([]byte(api.Token))} {
		if strings.Contains(o.all.String(), secret) {
			t.Errorf("%s was shown", what)
		}
	}
}
