// Package kubes is a management server's side of entries in Kubernetes clusters:
// it says what is to be so in each, takes note of how it is, puts a release that
// fails back to the one before, and looks whether the addresses lead to entries.
//
//	kubes/<id> ── what operators want ──▶ Order ──▶ child: applies, watches
//	                                        ▲            │
//	kubestate/<id> ── what failed ──────────┘            │
//	      ▲                                              │
//	      └── next: contact, rollout, pods ◀── Ended ◀───┘
//	      └── Lookout: addresses, tried from here
//
// Only the holder of the office does any of it, and everything it writes carries
// the epoch of the office. What is decided depends on the store and on what was
// seen last, so that the next holder goes on where this one ended.
package kubes

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

var _ chores.Kube = (*Service)(nil)

// Service implements chores.Kube. Set the fields, run it on every server, and use
// it.
type Service struct {
	Store  *store.Store
	Mesh   mesh.ID
	Server mesh.ServerID
	// Root is the SHA-256 of the root certificate's DER in lower-case hexadecimal.
	Root string
	// Epoch is the mesh's.
	Epoch func() int64
	// Subscription is as Lookout.Service.
	Subscription func() (mesh.ServerName, *tls.Certificate)
	Resolver     Resolver // nil: this machine's
	// Wake has the order asked for.
	Wake func()
	Log  *slog.Logger

	Pace Pace             // zero: the usual
	Now  func() time.Time // nil: time.Now

	once   sync.Once
	kubes  *store.Mirror[mesh.KubeID, mesh.KubeCluster]
	states *store.Mirror[mesh.KubeID, mesh.KubeState]

	mu    sync.Mutex                // guards what is below
	works map[mesh.KubeID]kube.Work // that are ordered; nil: this server does not lead
	came  []kube.Observation        // not looked at yet
	wake  chan struct{}             // full: there is something to look at
}

func (s *Service) begin() {
	s.once.Do(func() {
		s.kubes, s.states = store.NewMirror(s.Store.Kubes), store.NewMirror(s.Store.KubeStates)
		s.wake = make(chan struct{}, 1)
	})
}

// Run follows the clusters until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.begin()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.kubes.Run(ctx) })
	g.Go(func() error { return s.states.Run(ctx) })
	return g.Wait()
}

// now is for what is written down.
func (s *Service) now() time.Time { return s.instant().UTC() }

// instant is for what is measured: its differences are those of the monotonic clock,
// whatever somebody makes of the wall's.
func (s *Service) instant() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *Service) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func object(id mesh.KubeID) string { return "kube/" + string(id) }
