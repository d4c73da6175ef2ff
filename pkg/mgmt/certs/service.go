// Package certs is a management server's side of the certificates that clients
// see and that a public authority makes: those of cells, whose keys are made at
// the cores and stay there, and the one of the subscription service, which the
// servers share.
//
//	core ── request ──▶ CellRequested ──▶ cellcerts/<core id> ──▶ Order ──▶ child: ACME
//	core ◀── chain ──── Deliver ◀──────── cellcerts/<core id> ◀── Ended ◀──┘
//	                                           ▲
//	                     administrator ── Upload
//
// Every server takes requests and hands over what has come; the holder of the
// office orders, and tells people of what ends soon.
package certs

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Files are the certificate of the subscription service on this server, PEM: the
// chain, leaf first, and its key. They are read again when they change.
type Files struct{ Cert, Key string }

// Service keeps these certificates. Set the fields, then run it.
type Service struct {
	Store  *store.Store
	Server mesh.ServerID
	// Settings are those of the mesh at the moment.
	Settings func() mesh.SubscriptionSettings
	Files    Files // none: "" both
	// Deliver gives a core that is connected here its certificate. It waits for
	// nothing.
	Deliver func(mesh.CoreID, [][]byte)
	// Wake has Order asked for.
	Wake func()
	Log  *slog.Logger

	Poll time.Duration // between two looks at the files; 0 is 10 s
	Pace Pace          // of orders

	once   sync.Once
	cells  *store.Mirror[mesh.CoreID, mesh.CellCert]
	sub    *store.Mirror[string, mesh.SubscriptionCert]
	files  atomic.Pointer[held]
	shared atomic.Pointer[held]

	mu      sync.Mutex // guards what is below
	term    *term      // nil: this server does not lead
	attempt uint64     // the last one, of whatever
}

// held is a certificate in memory, and why it is not the newest.
type held struct {
	cert    *tls.Certificate // nil: there is none
	of      string           // what it was read from
	problem string
}

func (s *Service) begin() {
	s.once.Do(func() {
		s.cells, s.sub = store.NewMirror(s.Store.CellCerts), store.NewMirror(s.Store.SubCert)
	})
}

// Subscription is the certificate that the subscription service shows now; nil
// while there is none. It may be called at any time, from any goroutine.
func (s *Service) Subscription() *tls.Certificate {
	h := s.files.Load()
	if s.Settings().Certificate == mesh.SubscriptionACME {
		h = s.shared.Load()
	}
	if h == nil {
		return nil
	}
	return h.cert
}

// Run follows the files and the store until ctx ends. It calls ready when what
// is there has been read.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.begin()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.cells.Run(ctx) })
	g.Go(func() error { return s.sub.Run(ctx) })
	g.Go(func() error {
		if s.sub.Synced(ctx) == nil && s.cells.Synced(ctx) == nil {
			s.follow(ctx, ready)
		}
		return nil
	})
	return g.Wait()
}

func (s *Service) follow(ctx context.Context, ready func()) {
	poll := s.Poll
	if poll == 0 {
		poll = 10 * time.Second
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	handed := map[mesh.CoreID]store.Rev{}
	var watched time.Time
	for first := true; ctx.Err() == nil; first = false {
		sub, cells := s.sub.Changed(), s.cells.Changed()
		s.readFiles()
		s.readShared()
		s.handOver(handed)
		if first {
			ready()
		}
		if every := s.Pace.withDefaults().Watch; time.Since(watched) >= every {
			s.step(ctx, "watch files", func() error { return s.watchFiles(ctx) })
			watched = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-sub:
		case <-cells:
		}
	}
}

// handOver delivers the certificates that are new here.
func (s *Service) handOver(handed map[mesh.CoreID]store.Rev) {
	for core := range s.cells.All() {
		item, ok := s.cells.Item(core)
		if !ok || handed[core] == item.Rev {
			continue
		}
		handed[core] = item.Rev
		if answered(item.Value.Order) {
			s.Deliver(core, item.Value.Order.Chain)
		}
	}
}
