//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Names and settings of the entry layer under test. Two images that differ in
// nothing but their name roll as any two do.
const (
	clusterName = "lab"
	entryNS     = kube.DefaultNamespace
	oldImage    = "meshctl.test/meshctl:1"
	newImage    = "meshctl.test/meshctl:2"

	drainWait  = 5 * time.Second
	drainLimit = 30 * time.Second
)

// Entries is a mesh whose entries run in the cluster.
type Entries struct {
	*Mesh
	addr netip.Addr // of the balancer
}

// theEntries returns the mesh with entries that serve, and wants them to serve
// when the test ends. The first test deploys them.
func theEntries(t *testing.T) *Entries {
	t.Helper()
	m := theMesh(t)
	shared.onceEntries.Do(func() { shared.deploy(t, m) })
	switch {
	case shared.entries == nil:
		t.Fatal("the cluster was not added")
	case !shared.entriesWell: // the last test failed and left them so
		shared.entries.restore(t)
	}
	shared.entriesWell = false
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.tails())
			t.Log(m.meshTails())
		}
		shared.entries.complete(t)
		shared.entriesWell = true
	})
	return shared.entries
}

// deploy does what an operator does: rights, credential, cluster, entries.
func (s *sharedParts) deploy(t *testing.T, m *Mesh) {
	t.Helper()
	begin := time.Now()
	step := func(what string) { t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), what) }
	m.importMeshctl(t)
	step("image at every worker")
	m.addCluster(t, m.Kube, clusterName)
	step("cluster added")
	s.entries = &Entries{Mesh: m}
	s.entries.restore(t)
	step("entries deployed")
	s.entriesWell = true
}

// restore deploys the entries as the tests expect them.
func (e *Entries) restore(t testing.TB) {
	t.Helper()
	t.Log(e.admin(t, "entry", "deploy", "--image", oldImage, "--autoscale", "off", "--replicas", "2", "--lb-class", balancerClass,
		"--annotation", proxyAnnotation+"=v2", "--proxy", hostAddr(north.balancer).String(),
		"--drain-wait", drainWait.String(), "--drain-limit", drainLimit.String(), "--deadline", "40s", "--wait", "3m",
		"--cpu", "100m", "--memory", "64Mi", "--memory-limit", "256Mi", "--log-level", "debug"))
	e.evenly(t)
	e.addr = e.Balanced(t, entryNS, kube.Name, 2)
}

// evenly moves a pod when all are on one worker, as after another was away.
func (e *Entries) evenly(t testing.TB) {
	t.Helper()
	pods := e.pods(t)
	node := pods[0].text("spec", "nodeName")
	for _, p := range pods {
		if p.text("spec", "nodeName") != node {
			return
		}
	}
	e.Cordon(t, node, true)
	if err := e.Kube.admin.delete(t.Context(), "/api/v1/namespaces/"+entryNS+"/pods/"+pods[0].text("metadata", "name")); err != nil {
		t.Fatal(err)
	}
	e.Balanced(t, entryNS, kube.Name, 2)
	e.Cordon(t, node, false)
	e.complete(t)
}

// importMeshctl builds our image as `make image` does, under both names.
func (m *Mesh) importMeshctl(t testing.TB) {
	t.Helper()
	for i, name := range []string{oldImage, newImage} {
		dir := filepath.Join(m.Dir, fmt.Sprintf("image-%d", i+1))
		cmd := exec.CommandContext(t.Context(), "go", "run", "./internal/image", "-o", dir, "-tag", name, "-platforms", "linux/"+runtime.GOARCH)
		cmd.Dir = filepath.Join("..", "..")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", lab.BuildFlags)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		m.Import(t, filepath.Join(dir, "meshctl-"+runtime.GOARCH+".tar"))
	}
}

// addCluster lets management into a cluster.
func (m *Mesh) addCluster(t testing.TB, k *Kube, name string) {
	t.Helper()
	for doc := range strings.SplitSeq(m.admin(t, "kube", "rbac"), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if err := k.admin.apply(t.Context(), o, "operator", ""); err != nil {
			t.Fatal(err)
		}
	}
	token, err := k.admin.tokenOf(t.Context(), entryNS, kube.Account)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(k.control.pki.cert("ca"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := k.control.pki.writeKubeconfig(kube.Account, k.control.url(), map[string]any{"token": token}, ca)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(m.admin(t, "kube", "add", name, "--kubeconfig", file))
}

// admin runs `meshctl admin` at a server that runs, and wants it to succeed.
func (m *Mesh) admin(t testing.TB, args ...string) string {
	t.Helper()
	out, err := m.tryAdmin(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, m.meshTails())
	}
	return out
}

func (m *Mesh) tryAdmin(ctx context.Context, args ...string) (string, error) {
	for _, h := range m.mgmt {
		if h.role.Running() {
			return h.run(ctx, append(append([]string{"admin"}, args...), "--socket", h.file("s"))...)
		}
	}
	return "", errors.New("no server runs")
}

// clients is where the clients of the entries connect.
func (e *Entries) clients() string { return at(e.addr, 443) }

// view is the cluster as management sees it.
func (e *Entries) view(ctx context.Context) (admin.KubeView, error) {
	return call(ctx, e.Mesh, admin.KubeGet, admin.Ref{Ref: clusterName})
}

// complete waits until management says that what is wanted runs, and the balancer
// has a pod at both workers.
func (e *Entries) complete(t testing.TB) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx := context.WithoutCancel(t.Context()) // also when the test has ended
	// Twice the patience: after an outage the cluster's own programs come back one
	// after the other, each after a pause of its own.
	if err := retry(ctx, 2*patience, "what is wanted runs", func() error {
		v, err := e.view(ctx)
		if err != nil {
			return err
		}
		return completed(v)
	}); err != nil {
		t.Fatalf("%v\n%s", err, e.meshTails())
	}
	e.Balanced(t, entryNS, kube.Name, 2)
	return time.Since(begin)
}

func completed(v admin.KubeView) error {
	s := v.State
	switch {
	case s == nil:
		return errors.New("nobody has looked at it")
	case s.Contact != "":
		return fmt.Errorf("the API is %s: %s", s.Contact, s.Detail)
	case s.Parked == v.Wanted.Number:
		return nil // it was put back
	case s.Rollout.Release != v.Wanted.Number || s.Rollout.Phase != mesh.KubeComplete || s.Rollout.Old != 0:
		return fmt.Errorf("release %d wanted, %+v; problems %v", v.Wanted.Number, s.Rollout, s.Problems)
	}
	return nil
}

// object is a live object of the entry layer.
func (e *Entries) object(t testing.TB, kind string) object {
	t.Helper()
	o, err := e.Kube.admin.get(t.Context(), entryPath(kind))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// entryPath is where an object is; kind may have a subresource after a slash.
func entryPath(kind string) string {
	kind, sub, _ := strings.Cut(kind, "/")
	if sub != "" {
		sub = "/" + sub
	}
	group := map[string]string{"Deployment": "apps/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "NetworkPolicy": "networking.k8s.io/v1"}[kind]
	if group == "" {
		group = "v1"
	}
	return pathOf(object{"apiVersion": group, "kind": kind, "metadata": map[string]any{"name": kube.Name, "namespace": entryNS}}) + sub
}

// change is what another than management does to an object.
func (e *Entries) change(t testing.TB, kind, manager string, patch object) {
	t.Helper()
	if _, err := e.Kube.admin.do(t.Context(), http.MethodPatch, entryPath(kind)+"?fieldManager="+manager, merge, patch); err != nil {
		t.Fatal(err)
	}
}

// pods are the entries as the cluster has them, those that end apart.
func (e *Entries) pods(t testing.TB) (live []object) {
	t.Helper()
	pods, err := e.Pods(t.Context(), entryNS, kube.LabelName+"="+kube.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if p.text("metadata", "deletionTimestamp") == "" {
			live = append(live, p)
		}
	}
	return live
}
