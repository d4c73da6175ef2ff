// Package alerts raises alerts: the server that holds the office looks at the state
// and at what has happened, takes one step of the rules (pkg/alert) every two
// seconds, and writes what changes together with the notices of it. It keeps
// nothing that the next leader needs. Beside that it keeps webhooks at work.
package alerts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Office is what servers elect the one for who raises alerts.
const Office = "alerts"

const (
	stepEvery = 2 * time.Second
	stepTime  = 20 * time.Second
	// endsEvery is how often ends of certificates are looked at.
	endsEvery = 10 * time.Minute
)

// Service raises alerts. Run it on every server.
type Service struct {
	Store  *store.Store
	Server mesh.ServerID
	// Servers are the management servers as this one sees them. nil: not known.
	Servers func() []admin.ServerLine
	// Ends are the certificates near their end that nobody has renewed. nil: none.
	Ends func(context.Context) ([]alert.Condition, error)
	// Every is how often a step is taken; 0: two seconds.
	Every time.Duration
	Log   *slog.Logger
	Now   func() time.Time // nil: time.Now

	once   sync.Once
	alerts *store.Mirror[string, mesh.Alert]
}

func (s *Service) begin() {
	s.once.Do(func() { s.alerts = store.NewMirror(s.Store.Alerts) })
}

func (s *Service) now() time.Time {
	if s.Now != nil {
		return s.Now().UTC()
	}
	return time.Now().UTC()
}

// Run shows the alerts in metrics, and raises them while this server leads in it,
// until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.begin()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.alerts.Run(ctx) })
	g.Go(func() error { return s.Store.Lead(ctx, Office, s.Server, s.lead) })
	return g.Wait()
}

// lead takes steps for as long as this server leads.
func (s *Service) lead(ctx context.Context) error {
	s.Log.Info("leadership taken")
	defer s.Log.Info("leadership ended")
	own, cancel := context.WithCancel(ctx)
	l := newLook(s)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { l.events.run(own, s.Log) })
	for _, run := range l.mirrors() {
		wg.Go(func() { _ = run(own) }) // a mirror ends with own alone, and without an error
	}
	every := s.Every
	if every == 0 {
		every = stepEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	failed := false
	for {
		bounded, done := context.WithTimeout(ctx, stepTime)
		err := l.step(bounded)
		done()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failed && !errors.Is(err, mesh.ErrUnavailable) {
			s.Log.Warn("alerts not looked at", "err", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-l.events.news():
		}
	}
}
