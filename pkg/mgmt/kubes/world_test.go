package kubes

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

const patient = time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// world is a mesh with one cluster, in which nothing is wanted yet.
type world struct {
	t       *testing.T
	st      *store.Store
	mesh    mesh.ID
	cluster mesh.KubeID
	found   atomic.Pointer[[]netip.Addr] // where the name of management leads
	skew    atomic.Int64                 // that has passed beyond the clock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, st: storetest.New(t), mesh: mesh.NewID(), cluster: mesh.NewKubeID()}
	w.found.Store(&[]netip.Addr{netip.MustParseAddr("198.51.100.1")})
	credential, err := w.st.Seal(store.KubeCredentialPlace(w.cluster), "the token of the cluster")
	if err != nil {
		t.Fatal(err)
	}
	cfg := mesh.DefaultConfig()
	cfg.MgmtAddresses = []string{"mgmt.example.net:8443"}
	w.change(func(tx *store.Tx) error {
		return errors.Join(
			store.Create(tx, w.st.Config, store.ConfigKey, cfg),
			store.Create(tx, w.st.Kubes, w.cluster, mesh.KubeCluster{
				ID: w.cluster, Name: "paris", Server: "https://192.0.2.7:6443", Auth: mesh.KubeToken, Credential: credential, Namespace: "meshctl-entry",
			}))
	})
	return w
}

func (w *world) change(f func(*store.Tx) error) {
	w.t.Helper()
	if _, err := w.st.Change(w.t.Context(), store.By{Actor: "local:0"}, "test", f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) edit(f func(*mesh.KubeCluster)) {
	w.t.Helper()
	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Kubes, w.cluster, func(c *mesh.KubeCluster) error { f(c); return nil })
	})
}

// deploy makes another release.
func (w *world) deploy(image string) {
	w.t.Helper()
	w.edit(func(c *mesh.KubeCluster) {
		n := int64(1)
		if c.Wanted.Number != 0 {
			c.Earlier, n = append(c.Earlier, c.Wanted), c.Wanted.Number+1
		}
		c.Wanted = mesh.EntryRelease{Number: n, Pods: n, Layer: mesh.EntryLayer{Image: image}}
	})
}

// LookupNetIP makes the world what knows names.
func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	found := w.found.Load()
	if host != "mgmt.example.net" || found == nil {
		return nil, errors.New("no such host")
	}
	return *found, nil
}

// server is one server that leads.
type server struct {
	*Service
	stop func()
}

func (w *world) lead() *server {
	w.t.Helper()
	return w.leadBy(w)
}

// leadBy leads with what knows names.
func (w *world) leadBy(r Resolver) *server {
	w.t.Helper()
	s := &server{Service: &Service{
		Store: w.st, Mesh: w.mesh, Server: mesh.NewServerID(), Root: strings.Repeat("ab", 32), Epoch: func() int64 { return 3 },
		Resolver: r, Wake: func() {}, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		Now:  func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) },
		Pace: Pace{Look: 20 * time.Millisecond, Write: 50 * time.Millisecond, Names: 20 * time.Millisecond, Tries: 50 * time.Millisecond},
	}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) }) // ends with ctx alone
	wg.Go(func() { _ = s.Store.Lead(ctx, "test", s.Server, s.Lead) })
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(s.stop)
	return s
}

func (w *world) state() mesh.KubeState {
	w.t.Helper()
	it, err := w.st.KubeStates.Get(w.t.Context(), w.cluster)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		w.t.Fatal(err)
	}
	return it.Value
}

// ordered waits until a release is ordered, and returns the work.
func (w *world) ordered(s *server, release int64) kube.Work {
	w.t.Helper()
	var out kube.Work
	eventually(w.t, "it is ordered", func() bool {
		for _, o := range s.Order() {
			if out = o; o.Release == release {
				return true
			}
		}
		return false
	})
	return out
}

// says has the child say something of what is ordered, as often as a child would,
// until the state is as wanted.
func (w *world) says(s *server, release int64, o kube.Observation, what string, ok func(mesh.KubeState) bool) {
	w.t.Helper()
	o.Mark = w.ordered(s, release).Mark
	eventually(w.t, what, func() bool {
		o.Cluster, o.Release, o.At = w.cluster, release, s.now()
		s.Ended(o)
		return ok(w.state())
	})
}

func (w *world) events(kind mesh.EventType) (out []mesh.Event) {
	w.t.Helper()
	all, _, err := w.st.Events.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range all {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}
