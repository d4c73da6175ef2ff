package subs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// defaultInterval is how often clients look, unless the operator says otherwise.
	defaultInterval = 12 * time.Hour
	// farewell bounds how long answers under way may take once the service stops.
	farewell = 2 * time.Second
)

// Service is the subscription service of one server. It answers while Run runs,
// and runs once.
type Service struct {
	State State
	// Certificate is the one of the service's name. It returns nil while there is
	// none.
	Certificate func() *tls.Certificate
	Limits      Limits
	Registerer  prometheus.Registerer // nil: no metrics
	Log         *slog.Logger
	Now         func() time.Time // nil: time.Now

	pulse   pulse
	index   index
	limits  *limiters
	metrics *metrics
	cache   cache
	door    *door
	running atomic.Bool

	headerTime time.Duration // in tests, how long a client may be silent
}

// Limits bound what clients and entries can make the server do.
type Limits struct {
	// Sessions and Streams are how many there may be at once, in all. One entry
	// may have half of each. 0: 256 and 1024.
	Sessions, Streams int
	// PerSource is how many clients one address may have at once. 0: 64.
	PerSource int
	// Misses is how many requests a minute one client address may make with
	// secrets that do not exist, Fetches how many one secret is answered. 0: 30.
	Misses, Fetches int
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, n int) {
		if *v <= 0 {
			*v = n
		}
	}
	def(&l.Sessions, 256)
	def(&l.Streams, 1024)
	def(&l.PerSource, 64)
	def(&l.Misses, 30)
	def(&l.Fetches, 30)
	return l
}

func (s *Service) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Name is the host name of the service; "" turns it off.
func (s *Service) Name() mesh.ServerName { return s.State.Config().Subscription.Name }

// Run answers until ctx ends, then finishes what is under way. It calls ready
// once sessions may be handed to it.
func (s *Service) Run(ctx context.Context, ready func()) error {
	if err := s.prepare(); err != nil {
		return err
	}
	defer s.metrics.all().Unregister(s.Registerer)
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	srv := s.server()
	ended := make(chan error, 3)
	go func() { ended <- s.pulse.run(life) }()
	go func() { ended <- s.index.run(life) }()
	go func() { ended <- srv.ServeTLS(s.door.clients, "", "") }()
	s.running.Store(true)
	ready()

	var err error
	waiting := cap(ended)
	select {
	case err = <-ended:
		waiting--
	case <-ctx.Done():
	}
	s.running.Store(false)
	s.finish(srv)
	stop()
	for range waiting {
		err = errors.Join(err, <-ended)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// finish tells entries to go elsewhere, and lets answers under way arrive.
func (s *Service) finish(srv *http.Server) {
	s.door.goodbye()
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		s.Log.Debug("answers cut", "err", errors.Join(err, srv.Close()))
	}
	s.door.close(ctx)
}

func (s *Service) prepare() error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	s.Limits = s.Limits.withDefaults()
	s.limits = newLimiters(s.Limits)
	now := s.now()
	s.pulse.state, s.pulse.now, s.pulse.on = s.State, s.now, func() bool { return s.Name() != "" }
	s.pulse.asOf.Store(&now) // the copies have just been filled
	s.index.state = s.State
	s.index.rebuild()
	s.door = newDoor(s)
	s.metrics = newMetrics(s)
	if err := s.metrics.all().Register(s.Registerer); err != nil {
		return fmt.Errorf("subs: register metrics: %w", err)
	}
	return nil
}
