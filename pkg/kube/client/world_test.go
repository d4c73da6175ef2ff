package client

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	space    = "entries"
	theMesh  = mesh.ID("mesh-aaaaaaaaaaaaaaaa")
	cluster  = mesh.KubeID("kube-bbbbbbbbbbbbbbbb")
	patience = 30 * time.Second // for what comes soon, on a machine that is busy
)

func quick() pace {
	p := usual()
	p.request, p.quiet, p.settled = 3*time.Second, 3*time.Second, 300*time.Millisecond
	p.min, p.max, p.gather, p.again, p.beat, p.logs = 20*time.Millisecond, 200*time.Millisecond, 10*time.Millisecond, 300*time.Millisecond, 400*time.Millisecond, 50*time.Millisecond
	return p
}

// layer is what is deployed here: two pods behind a balancer.
func layer() mesh.EntryLayer {
	return mesh.EntryLayer{Image: "registry.example.net/meshctl:1", Replicas: 2}
}

func objects(t *testing.T, l mesh.EntryLayer, release int64, e kube.Epoch) []kube.Object {
	t.Helper()
	out, err := kube.Render(mesh.EntryRelease{Number: release, Pods: release, Layer: l}, kube.Facts{
		Mesh: theMesh, Cluster: cluster, Namespace: space, Root: strings.Repeat("0f", 32),
		Mgmt: []string{"192.0.2.1:8443"}, Allow: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:8443")}, Epoch: e,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// desk has a keeper at work, and what it reported.
type desk struct {
	t      *testing.T
	server *kubetest.Server
	keeper *Keeper
	stop   func()

	mu    sync.Mutex
	all   []kube.Observation // guarded by mu
	drift []string           // guarded by mu
	more  chan struct{}
}

func open(t *testing.T, s *kubetest.Server, p pace) *desk {
	t.Helper()
	d := &desk{t: t, server: s, more: make(chan struct{}, 1)}
	d.keeper = &Keeper{Report: d.take, pace: p}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { d.keeper.Run(ctx) })
	d.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(d.stop)
	return d
}

func (d *desk) take(o kube.Observation) {
	d.mu.Lock()
	d.all = append(d.all, o)
	d.drift = append(d.drift, o.Drift...)
	d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *desk) set(l mesh.EntryLayer, release int64, e kube.Epoch) {
	d.t.Helper()
	d.keeper.Set(d.work(objects(d.t, l, release, e), release, e))
}

func (d *desk) work(o []kube.Object, release int64, e kube.Epoch) kube.Work {
	return kube.Work{Cluster: cluster, API: d.server.API(space), Mesh: theMesh, Epoch: e, Objects: o, Release: release}
}

// now is how many reports there were: only those after it count for a wait.
func (d *desk) now() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// until waits for a report, of those after the first from, that is as it should be.
func (d *desk) until(from int, what string, ok func(kube.Observation) bool) kube.Observation {
	d.t.Helper()
	end := time.After(patience)
	for {
		d.mu.Lock()
		for ; from < len(d.all); from++ {
			if o := d.all[from]; ok(o) {
				d.mu.Unlock()
				return o
			}
		}
		last := "none"
		if len(d.all) > 0 {
			last = fmt.Sprintf("%+v", d.all[len(d.all)-1])
		}
		d.mu.Unlock()
		select {
		case <-d.more:
		case <-end:
			d.t.Fatalf("no report that %s; the last: %s\nrequests: %q", what, last, d.server.Requests())
		}
	}
}

func (d *desk) drifts() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.drift, ", ")
}

func isComplete(release int64) func(kube.Observation) bool {
	return func(o kube.Observation) bool {
		return o.Applied && o.Failure == kube.NoFailure && o.Release == release && o.Desired > 0 && o.Updated == o.Desired && o.Ready == o.Desired && o.Old == 0
	}
}

// eventually polls for what no report says.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
		select {
		case <-t.Context().Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func deployment(t *testing.T, s *kubetest.Server) kubetest.Object {
	t.Helper()
	o := s.Get(t, "Deployment", space, kube.Name)
	if o == nil {
		t.Fatal("there is no Deployment")
	}
	return o
}

func replicas(t *testing.T, s *kubetest.Server) int64 {
	t.Helper()
	n, _ := deployment(t, s)["spec"].(map[string]any)["replicas"].(int64)
	return n
}

func listFrom(revision string) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: revision}
}
