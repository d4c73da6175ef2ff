//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

// patience is how long a cluster on a busy machine may take to be as it should.
const patience = 90 * time.Second

// Kube is a cluster.
type Kube struct {
	Dir   string
	Nodes map[string]*Node

	program  string // kube
	fabric   fabric
	control  *controlPlane
	admin    *api
	balancer *balancer
	images   []string // what workers begin with
	stop     context.CancelFunc
}

// place is where the hosts of a cluster are on the network that all have in common:
// what their names end with, and the last bytes of their addresses. Services get
// those after services.
type place struct {
	suffix                      string
	control, balancer, services byte
}

// north is the cluster of all tests, south a second one.
var (
	north = place{"", 2, 80, 100}
	south = place{"-south", 3, 81, 150}
)

// newKube makes a control plane and a balancer without workers.
func newKube(ctx context.Context, dir string, f fabric, program string, p place) (*Kube, error) {
	k := &Kube{Dir: dir, Nodes: map[string]*Node{}, program: program, fabric: f}
	ctx, k.stop = context.WithCancel(ctx)
	keys, logs := filepath.Join(dir, "pki"), filepath.Join(dir, "control")
	if err := errors.Join(os.Mkdir(keys, 0o700), os.Mkdir(logs, 0o700)); err != nil {
		return k, err
	}
	c := &controlPlane{addr: hostAddr(p.control), program: program, dir: logs, logs: logs, pki: pki(keys)}
	k.control = c
	var err error
	if c.Namespace, err = k.fabric.attach("control"+p.suffix, c.addr); err != nil {
		return k, err
	}
	if err := c.prepare(); err != nil {
		return k, err
	}
	if k.admin, err = c.client("admin"); err != nil {
		return k, err
	}
	if err := c.up(ctx); err != nil {
		return k, err
	}
	k.balancer, err = k.newBalancer(ctx, p)
	return k, err
}

// makeImages writes the images of our own small program.
func (k *Kube) makeImages(ctx context.Context) error {
	program := filepath.Join(k.Dir, "pod")
	if err := lab.Build(ctx, program, "github.com/meshctl/meshctl/internal/kube/pod"); err != nil {
		return err
	}
	for name, entrypoint := range map[string]string{podImage: "/serve", pauseImage: "/pause", failImage: "/fail", unreadyImage: "/unready"} {
		file := filepath.Join(k.Dir, entrypoint[1:]+".tar")
		if err := writeImage(file, name, program, entrypoint); err != nil {
			return err
		}
		k.images = append(k.images, file)
	}
	return nil
}

// AddNode starts the n-th worker, and waits until it is Ready.
func (k *Kube) AddNode(t testing.TB, n int) *Node {
	t.Helper()
	node, err := k.newNode(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range k.Nodes {
		if err := errors.Join(node.knows(other), other.knows(node)); err != nil {
			t.Fatal(err)
		}
	}
	k.Nodes[node.Name] = node
	k.WaitNode(t, node.Name, "True")
	return node
}

// knows makes a worker send what is for the pods of another there.
func (n *Node) knows(other *Node) error {
	return lab.IP("-n " + string(n.Namespace) + " route replace " + other.pods.String() + " via " + other.Addr.String())
}

// WaitNode waits until a worker is Ready, or not: the condition is one of True,
// False and Unknown.
func (k *Kube) WaitNode(t testing.TB, name, want string) time.Duration {
	t.Helper()
	return k.WaitFor(t, "node "+name+" Ready: "+want, func() error {
		node, err := k.admin.get(t.Context(), "/api/v1/nodes/"+name)
		if err != nil {
			return err
		}
		if got, why := node.condition("Ready"); got != want {
			return fmt.Errorf("it is %q: %s", got, why)
		}
		return nil
	})
}

// KillNode cuts the power of a worker. The cluster is not told.
func (k *Kube) KillNode(t testing.TB, name string) {
	t.Helper()
	node := k.Nodes[name]
	delete(k.Nodes, name)
	if err := node.off(); err != nil {
		t.Fatal(err)
	}
}

// ReplaceNode starts a killed worker anew, as a cloud replaces a machine.
func (k *Kube) ReplaceNode(t testing.TB, name string) {
	t.Helper()
	if err := k.admin.delete(t.Context(), "/api/v1/nodes/"+name); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "w"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(k.Dir, name)); err != nil {
		t.Fatal(err)
	}
	k.AddNode(t, n)
}

// Cordon keeps new pods from a worker, or lets them come again.
func (k *Kube) Cordon(t testing.TB, name string, closed bool) {
	t.Helper()
	if err := k.admin.patch(t.Context(), "/api/v1/nodes/"+name, object{"spec": object{"unschedulable": closed}}); err != nil {
		t.Fatal(err)
	}
}

// DrainNode moves everything away from a worker, by evictions, and returns how
// long that took.
func (k *Kube) DrainNode(t testing.TB, name string) time.Duration {
	t.Helper()
	k.Cordon(t, name, true)
	return k.WaitFor(t, "node "+name+" is drained", func() error { return k.evict(t.Context(), name) })
}

// evict asks once for every pod of a worker to go.
func (k *Kube) evict(ctx context.Context, node string) error {
	pods, err := k.admin.get(ctx, "/api/v1/pods?fieldSelector=spec.nodeName="+node)
	if err != nil {
		return err
	}
	left := 0
	for _, pod := range pods.list("items") {
		if pod.text("metadata", "ownerReferences", 0, "kind") == "DaemonSet" {
			continue
		}
		left++
		if pod.text("metadata", "deletionTimestamp") != "" {
			continue
		}
		ns, name := pod.text("metadata", "namespace"), pod.text("metadata", "name")
		_, err := k.admin.create(ctx, "/api/v1/namespaces/"+ns+"/pods/"+name+"/eviction", object{
			"apiVersion": "policy/v1", "kind": "Eviction", "metadata": object{"name": name, "namespace": ns}})
		if refused, ok := errors.AsType[*statusError](err); ok && (refused.code == http.StatusTooManyRequests || refused.code == http.StatusNotFound) {
			continue // the budget says not now; or it has gone
		}
		if err != nil {
			return err
		}
	}
	if left > 0 {
		return fmt.Errorf("%d pods are there", left)
	}
	return nil
}

// StopAPIServer takes the API server away at once.
func (k *Kube) StopAPIServer(t testing.TB) {
	t.Helper()
	if err := k.control.api.Kill(); err != nil {
		t.Fatal(err)
	}
}

// StartAPIServer brings it back, and waits until it answers.
func (k *Kube) StartAPIServer(t testing.TB) {
	t.Helper()
	if err := k.control.startAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Import gives an image, a tar, to every worker and to those that come later.
func (k *Kube) Import(t testing.TB, file string) {
	t.Helper()
	if !slices.Contains(k.images, file) {
		k.images = append(k.images, file)
	}
	for _, n := range k.Nodes {
		if err := n.inside(importCommand(file)...); err != nil {
			t.Fatal(err)
		}
	}
}

// WaitFor polls until try returns nil, and returns how long that took.
func (k *Kube) WaitFor(t testing.TB, what string, try func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := retry(context.WithoutCancel(t.Context()), patience, what, try); err != nil {
		t.Fatalf("%v\n%s", err, k.tails())
	}
	return time.Since(begin)
}

// Pods are the pods of a namespace with a label.
func (k *Kube) Pods(ctx context.Context, ns, selector string) ([]object, error) {
	list, err := k.admin.get(ctx, "/api/v1/namespaces/"+ns+"/pods?labelSelector="+selector)
	return list.list("items"), err
}

// tails shows the ends of the logs of everything that runs, and where they are.
func (k *Kube) tails() string {
	var b strings.Builder
	for _, p := range []*lab.Process{k.control.api, k.control.kcm, k.control.scheduler} {
		if p != nil {
			b.WriteString(p.Tail(4) + "\n")
		}
	}
	return b.String() + "logs: " + filepath.Join(k.Dir, "*", "*.log")
}

// close ends and removes everything, also what others have on the network.
func (k *Kube) close() error { return errors.Join(k.end(), sweep(prefix+k.fabric.run)) }

// end ends the cluster.
func (k *Kube) end() error {
	k.stop()
	var errs []error
	if k.balancer != nil {
		k.balancer.wait()
	}
	for _, n := range k.Nodes {
		errs = append(errs, n.off())
	}
	if k.control != nil {
		errs = append(errs, k.control.down())
	}
	return errors.Join(errs...)
}

// at is an address with a port.
func at(addr netip.Addr, port int) string { return netip.AddrPortFrom(addr, uint16(port)).String() }
