//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
)

// southName is the second cluster, as management calls it.
const southName = "south"

// TestTwoClusters has one mesh have entries in two clusters, as in two regions: each
// has its own settings and is judged alone, clients are told of both, a pod of one
// is none of the other, and while the API of one is away the other is changed as
// ever, and clients are served by both.
func TestTwoClusters(t *testing.T) {
	e := theEntries(t)
	k := e.newSouth(t)
	e.addCluster(t, k, southName)
	t.Cleanup(func() { e.forget(t, southName) })
	t.Log(e.admin(t, "entry", "deploy", "--cluster", southName, "--image", oldImage, "--replicas", "1", "--max-connections", "500",
		"--lb-class", balancerClass, "--annotation", proxyAnnotation+"=v2", "--proxy", hostAddr(south.balancer).String(),
		"--drain-wait", "1s", "--drain-limit", "5s", "--memory", "64Mi", "--wait", "3m"))
	there := at(k.Balanced(t, entryNS, kube.Name, 1), 443)
	e.bothServe(t, there)
	e.apart(t, k)
	e.refusedElsewhere(t, k)

	k.StopAPIServer(t)
	e.wait(t, "management says that the API of one is away", func() error {
		return e.contact(t.Context(), southName, true)
	})
	e.underLoad(t, "configuration changed while the API of another cluster is away", func() {
		t.Log(e.admin(t, "entry", "deploy", "--cluster", clusterName, "--max-connections", "9030", "--wait", "1m"))
	})
	if err := e.contact(t.Context(), clusterName, false); err != nil {
		t.Error(err)
	}
	e.bothServe(t, there)
	k.StartAPIServer(t)
	e.wait(t, "management says that it is back", func() error { return e.contact(t.Context(), southName, false) })
	e.bothServe(t, there)
}

// newSouth makes a second cluster with one worker beside the first. The test's end
// removes it.
func (e *Entries) newSouth(t *testing.T) *Kube {
	t.Helper()
	dir := filepath.Join(e.Dir, southName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k, err := newKube(context.WithoutCancel(t.Context()), dir, e.fabric, e.program, south)
	if k != nil {
		t.Cleanup(func() {
			if err := k.end(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	k.images = e.images
	k.AddNode(t, 9)
	return k
}

// bothServe wants that clients are told of both clusters, and served by both.
func (e *Entries) bothServe(t testing.TB, there string) {
	t.Helper()
	d := e.devices[0]
	e.wait(t, "clients are told of both clusters", func() error {
		link, err := call(t.Context(), e.Mesh, admin.DeviceLinkOf, admin.Ref{Ref: string(d.link.Device)})
		if err == nil && !(slices.Contains(link.Entries, there) && slices.Contains(link.Entries, e.clients())) {
			err = fmt.Errorf("they are told of %v", link.Entries)
		}
		return err
	})
	for _, entry := range []string{there, e.clients()} {
		if err := d.try(t.Context(), entry); err != nil {
			t.Errorf("through %s: %v", entry, err)
		}
	}
}

// apart wants that what was set for one cluster is so there and not in the other.
func (e *Entries) apart(t testing.TB, k *Kube) {
	t.Helper()
	for _, c := range []struct {
		k         *Kube
		name      string
		pods, max int
	}{{e.Kube, clusterName, 2, 0}, {k, southName, 1, 500}} {
		o, err := c.k.admin.get(t.Context(), entryPath("Deployment"))
		if err != nil {
			t.Fatal(err)
		}
		v := must(t, e.Mesh, admin.KubeGet, admin.Ref{Ref: c.name})
		if n := o.number("spec", "replicas"); n != c.pods || len(v.State.Pods) != c.pods {
			t.Errorf("cluster %s: %d replicas and %d pods; want %d", c.name, n, len(v.State.Pods), c.pods)
		}
		if c.max != 0 && v.Wanted.Layer.Limits.Connections != c.max || c.max == 0 && v.Wanted.Layer.Limits.Connections == 500 {
			t.Errorf("cluster %s: %d connections at most", c.name, v.Wanted.Layer.Limits.Connections)
		}
		if o.text("metadata", "labels", kube.LabelCluster) != string(v.ID) {
			t.Errorf("cluster %s: the Deployment is that of %s", c.name, o.text("metadata", "labels", kube.LabelCluster))
		}
	}
}

// refusedElsewhere shows the token of a pod of one cluster as if it were one of the
// other.
func (e *Entries) refusedElsewhere(t testing.TB, k *Kube) {
	t.Helper()
	pods, err := k.Pods(t.Context(), entryNS, kube.LabelName+"="+kube.Name)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	account := "/api/v1/namespaces/" + entryNS + "/serviceaccounts/" + pods[0].text("spec", "serviceAccountName") + "/token"
	o, err := k.admin.create(t.Context(), account, object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{
			"audiences": []string{audienceOf(pods[0])}, "expirationSeconds": 3600,
			"boundObjectRef": object{"apiVersion": "v1", "kind": "Pod", "name": pods[0].text("metadata", "name"), "uid": pods[0].text("metadata", "uid")}}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := e.pretend(t, o.text("status", "token"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log, "no pod of a cluster of this mesh") || strings.Contains(log, "phone-home opened") {
		t.Errorf("a pod of another cluster was not refused as one:\n%s", log)
	}
}

// audienceOf is who the token of a pod is for.
func audienceOf(pod object) string {
	for _, v := range pod.list("spec", "volumes") {
		if a := v.text("projected", "sources", 0, "serviceAccountToken", "audience"); a != "" {
			return a
		}
	}
	return ""
}

// pretend runs an entry as the first cluster's pods are configured, with a token, on
// the host of the clients until management has answered, and returns its log.
func (e *Entries) pretend(t testing.TB, token string) (string, error) {
	t.Helper()
	var config map[string]any
	data := e.object(t, "ConfigMap").text("data", "entry.yaml")
	if err := yaml.Unmarshal([]byte(data), &config); err != nil {
		return "", err
	}
	pod, ok := config["kubernetes"].(map[string]any)
	if !ok {
		return "", errors.New("the configuration of pods does not say of which cluster they are")
	}
	h := e.client
	pod["token-file"] = e.secretFile(t, "token-of-south", token)
	pod["mgmt-file"] = e.secretFile(t, "mgmt", e.object(t, "ConfigMap").text("data", "mgmt"))
	config["dir"] = h.file("pretended")
	file := h.file("pretended.yaml")
	text, err := yaml.Marshal(config)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return "", err
	}
	p, err := h.Start("pretended", h.file("pretended.log"), h.command(context.WithoutCancel(t.Context()), "entry", "run", "--config", file))
	if err != nil {
		return "", err
	}
	e.wait(t, "management has answered", func() error {
		if log := p.Tail(50); p.Running() && !strings.Contains(log, "no pod of a cluster") && !strings.Contains(log, "phone-home opened") {
			return errors.New(log)
		}
		return nil
	})
	return p.Tail(50), p.Kill()
}

// contact wants the API of a cluster to be away, as management sees it, or not to be.
func (e *Entries) contact(ctx context.Context, name string, away bool) error {
	v, err := call(ctx, e.Mesh, admin.KubeGet, admin.Ref{Ref: name})
	if err == nil && (v.State == nil || (v.State.Contact != "") != away) {
		err = fmt.Errorf("%s: %+v", name, v.State)
	}
	return err
}

// forget takes the entries of a cluster away and then the cluster, and wants clients
// not to be told of it any more.
func (e *Entries) forget(t testing.TB, name string) {
	t.Helper()
	v, err := call(context.WithoutCancel(t.Context()), e.Mesh, admin.KubeGet, admin.Ref{Ref: name})
	if err != nil {
		t.Error(err)
		return
	}
	for _, args := range [][]string{{"entry", "uninstall", name, "--yes", "--wait", "2m"}, {"kube", "remove", name, "--yes"}} {
		if out, err := e.tryAdmin(context.WithoutCancel(t.Context()), args...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	link, err := call(context.WithoutCancel(t.Context()), e.Mesh, admin.DeviceLinkOf, admin.Ref{Ref: string(e.devices[0].link.Device)})
	for _, a := range v.State.Addresses {
		if told := fmt.Sprintf("%s:%d", a.Host, a.Port); slices.Contains(link.Entries, told) {
			t.Errorf("clients are told of %s, %v", told, err)
		}
	}
}
