package chores

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// ward is the server's side of clusters in tests: it orders what it is given, and
// keeps what comes.
type ward struct {
	mu    sync.Mutex // guards what follows
	works []kube.Work
	came  []kube.Observation
}

func (w *ward) Lead(ctx context.Context) error { <-ctx.Done(); return nil }

func (w *ward) Order() []kube.Work {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.works)
}

func (w *ward) Ended(o kube.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came = append(w.came, o)
}

func (w *ward) order(s *site, works ...kube.Work) {
	w.mu.Lock()
	w.works = works
	w.mu.Unlock()
	s.Wake()
}

// last is what was said last of a cluster.
func (w *ward) last(id mesh.KubeID) (out kube.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.came {
		if o.Cluster == id {
			out = o
		}
	}
	return out
}

// place is a cluster of a test, and the mesh that it is kept by.
type place struct {
	*kubetest.Server
	mesh mesh.ID
	id   mesh.KubeID
}

func newPlace(t *testing.T) *place {
	return &place{kubetest.New(t), mesh.NewID(), mesh.NewKubeID()}
}

// work is a release of the layer.
func (p *place) work(t *testing.T, release, leader int64) kube.Work {
	t.Helper()
	objects, err := kube.Render(
		mesh.EntryRelease{Number: release, Pods: release, Layer: mesh.EntryLayer{Image: fmt.Sprint("registry.example/meshctl:", release)}},
		kube.Facts{
			Mesh: p.mesh, Cluster: p.id, Namespace: "meshctl-entry", Root: strings.Repeat("ab", 32), Mgmt: []string{"198.51.100.1:8443"},
			Allow: []netip.AddrPort{netip.MustParseAddrPort("198.51.100.1:8443")}, Epoch: kube.Epoch{Mesh: 1, Leader: leader},
		})
	if err != nil {
		t.Fatal(err)
	}
	return kube.Work{Cluster: p.id, API: p.API("meshctl-entry"), Mesh: p.mesh, Epoch: kube.Epoch{Mesh: 1, Leader: leader}, Objects: objects, Release: release}
}

// image is what the pods are to run.
func (p *place) image(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(p.Get(t, "Deployment", "meshctl-entry", kube.Name)["spec"])
}

func keeping(w *ward) func(*Foreman) { return func(f *Foreman) { f.Kube = w } }

// hidden checks that the credential is nowhere to be seen.
func (p *place) hidden(t *testing.T, s *site) {
	t.Helper()
	seen := []string{s.logs.String()}
	for _, file := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.Status().PID, file))
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(b))
	}
	for _, text := range seen {
		if strings.Contains(text, p.Token) {
			t.Errorf("the credential is in %s", text)
		}
	}
}

func TestTheChildKeepsClusters(t *testing.T) {
	t.Parallel()
	p, w := newPlace(t), new(ward)
	p.Roll(t, nil)
	away := kube.Work{
		Cluster: mesh.NewKubeID(), Mesh: p.mesh, Release: 1, Epoch: kube.Epoch{Mesh: 1, Leader: 1},
		API: kube.API{Server: "https://127.0.0.1:1", Auth: mesh.KubeToken, Credential: "another token", Namespace: "x"},
	}
	s := newSite(t, "", keeping(w))
	w.order(s, p.work(t, 1, 1), away)
	until(t, "it runs", func() bool {
		o := w.last(p.id)
		return o.Release == 1 && o.Applied && o.Desired > 0 && o.Ready == o.Desired && o.Failure == kube.NoFailure
	})
	until(t, "the other is away", func() bool { return w.last(away.Cluster).Failure == kube.Unreachable })
	p.hidden(t, s)

	s.kill(t) // the next child goes on with what is ordered
	p.Delete(t, "Service", "meshctl-entry", kube.Name)
	until(t, "it is put right", func() bool { return p.Get(t, "Service", "meshctl-entry", kube.Name) != nil })
	w.order(s, p.work(t, 2, 1), away)
	until(t, "the next release runs", func() bool { return w.last(p.id).Release == 2 && strings.Contains(p.image(t), "meshctl:2") })

	w.order(s, away) // what is not ordered is left alone
	until(t, "obeyed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.desk.jobs.kube.GetClusters()) == 1 && s.desk.followed()
	})
	p.Requests()
	p.Delete(t, "Service", "meshctl-entry", kube.Name)
	w.order(s, p.work(t, 2, 1))
	until(t, "it is put right", func() bool { return p.Get(t, "Service", "meshctl-entry", kube.Name) != nil })
	s.depose()
	<-s.gone
	p.Requests()
	p.Delete(t, "Service", "meshctl-entry", kube.Name)
	tick := time.NewTimer(500 * time.Millisecond)
	<-tick.C
	if r := p.Requests(); len(r) != 0 {
		t.Errorf("after the office was given back: %q", r)
	}
}

// The leader goes in the middle of a rollout: the next one's child ends it, and the
// one before, should it wake up, writes nothing more.
func TestARolloutThatChangesHands(t *testing.T) {
	t.Parallel()
	p, first, second := newPlace(t), new(ward), new(ward)
	p.Roll(t, func(template kubetest.Object) kubetest.Start {
		if strings.Contains(fmt.Sprint(template), "meshctl:2") {
			return kubetest.Start{Waiting: "ContainerCreating"} // for as long as anybody looks
		}
		return kubetest.Start{}
	})
	a := newSite(t, "", keeping(first))
	first.order(a, p.work(t, 1, 7))
	until(t, "the first release runs", func() bool { return first.last(p.id).Ready > 0 })
	first.order(a, p.work(t, 2, 7))
	until(t, "the second rolls", func() bool { o := first.last(p.id); return o.Release == 2 && o.Updated == 1 && o.Old > 0 })

	b := newSite(t, "", keeping(second)) // the other has not noticed yet
	second.order(b, p.work(t, 3, 8))
	until(t, "the third runs", func() bool {
		o := second.last(p.id)
		return o.Release == 3 && o.Applied && o.Old == 0 && o.Ready == o.Desired
	})
	first.order(a, p.work(t, 2, 7), kube.Work{Cluster: "kube-x", API: kube.API{Server: "https://127.0.0.1:1"}})
	p.Delete(t, "Service", "meshctl-entry", kube.Name) // both see that
	until(t, "the one before finds that it is", func() bool { return first.last(p.id).Stale })
	until(t, "it is put right", func() bool { return p.Get(t, "Service", "meshctl-entry", kube.Name) != nil })
	if !strings.Contains(p.image(t), "meshctl:3") || second.last(p.id).Stale {
		t.Errorf("%s, %+v", p.image(t), second.last(p.id))
	}
	meta, _ := p.Get(t, "Service", "meshctl-entry", kube.Name)["metadata"].(map[string]any)
	if !strings.Contains(fmt.Sprint(meta["annotations"]), "1.8") {
		t.Errorf("it was written by %v", meta["annotations"])
	}
}

func TestAnyServersChildAsks(t *testing.T) {
	t.Parallel()
	p, w := newPlace(t), new(ward)
	s := newSite(t, "", keeping(w))
	s.depose()
	<-s.gone // it leads nothing
	if s.Status().PID != 0 {
		t.Error("there is a child before there is work")
	}
	ask := kube.Ask{Kind: kube.AskCheck, API: p.API("meshctl-entry"), Mesh: p.mesh, Cluster: p.id}
	got, err := s.AskKube(t.Context(), ask)
	if err != nil || got.Failure != kube.NoFailure || got.Version == "" || len(got.Missing) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	p.Deny("create", "pods", true)
	ask.Kind, ask.Objects = kube.AskPlan, p.work(t, 1, 1).Objects
	got, err = s.AskKube(t.Context(), ask)
	if err != nil || len(got.Changes) != len(ask.Objects) || got.Changes[0].Action != kube.Create || got.Changes[0].Diff == "" {
		t.Errorf("%+v, %v", got, err)
	}
	if n := p.Get(t, "Deployment", "meshctl-entry", kube.Name); n != nil {
		t.Errorf("the plan made %v", n)
	}
	ask.API.Server = "https://127.0.0.1:1"
	if got, err = s.AskKube(t.Context(), ask); err != nil || got.Failure != kube.Unreachable {
		t.Errorf("%+v, %v", got, err)
	}
	p.hidden(t, s)

	silent := make(chan struct{})
	p.Before(func(http.ResponseWriter, *http.Request) bool { <-silent; return true })
	defer close(silent)
	ask.API = p.API("meshctl-entry")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range maxAsks {
		wg.Go(func() {
			if _, err := s.AskKube(ctx, ask); mesh.Kind(err) != mesh.ErrUnavailable {
				t.Errorf("of a cluster that is silent: %v", err)
			}
		})
	}
	until(t, "all are asked", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.asking) == maxAsks })
	if _, err := s.AskKube(t.Context(), ask); mesh.Kind(err) != mesh.ErrUnavailable {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	wg.Wait()
	until(t, "nothing is asked any more", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.desk.asks) == 0 && s.desk.followed() })
}
