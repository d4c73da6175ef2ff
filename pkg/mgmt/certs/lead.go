package certs

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

var _ chores.Certs = (*Service)(nil)

// The ids of requests that are of no core.
const (
	idAccount      = "account"
	idSubscription = "subscription"
)

// term is one time in the office.
type term struct {
	order  *chores.CertsOrder // nil: nothing is to be done
	flight map[string]flight  // what is ordered, by id
	ended  []chores.CertOutcome
	wake   chan struct{} // full: something has ended
}

// flight is a request that is under way.
type flight struct {
	attempt   uint64
	name      string
	request   []byte
	directory string // that it was sent to
}

// Lead orders what there is to order, and tells people of what ends soon, until
// ctx ends.
func (s *Service) Lead(ctx context.Context) error {
	s.begin()
	if err := errors.Join(s.cells.Synced(ctx), s.sub.Synced(ctx)); err != nil {
		return err
	}
	t := &term{flight: map[string]flight{}, wake: make(chan struct{}, 1)}
	s.set(func() { s.term = t })
	defer s.set(func() { s.term = nil })
	pace := s.Pace.withDefaults()
	tick := time.NewTicker(pace.Look)
	defer tick.Stop()
	var watched time.Time
	for ctx.Err() == nil {
		cells, sub := s.cells.Changed(), s.sub.Changed()
		s.step(ctx, "settle", func() error { return s.settle(ctx, t) })
		s.step(ctx, "plan", func() error { return s.plan(ctx, t) })
		if time.Since(watched) >= pace.Watch {
			s.step(ctx, "watch", func() error { return s.watch(ctx) })
			watched = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-t.wake:
		case <-cells:
		case <-sub:
		}
	}
	return nil
}

func (s *Service) step(ctx context.Context, part string, f func() error) {
	if err := f(); err != nil && ctx.Err() == nil {
		s.Log.Warn("work on certificates failed", "part", part, "err", err)
	}
}

func (s *Service) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Order is what the child is to do now.
func (s *Service) Order() *chores.CertsOrder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return nil
	}
	return s.term.order
}

// Ended takes note of how a request ended.
func (s *Service) Ended(out chores.CertOutcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return
	}
	s.term.ended = append(s.term.ended, out)
	select {
	case s.term.wake <- struct{}{}:
	default: // it will look
	}
}

// plan works out what is to be ordered now.
func (s *Service) plan(ctx context.Context, t *term) error {
	set, err := s.Store.ACME.Get(ctx, store.ACMEKey)
	if errors.Is(err, mesh.ErrNotFound) {
		s.give(t, nil, nil)
		return nil
	}
	if err != nil {
		return err
	}
	order, err := s.unsealed(set.Value)
	if err != nil {
		return err
	}
	wants, err := s.wants(ctx, set.Value)
	if err != nil {
		return err
	}
	s.give(t, order, wants)
	return nil
}

// unsealed is an order for nothing yet, with all that is needed to make one.
func (s *Service) unsealed(set mesh.ACMESettings) (*chores.CertsOrder, error) {
	o := &chores.CertsOrder{
		Directory: set.Directory, Roots: set.Roots, Contact: set.Contact, External: set.External,
		DNS: set.DNS, AllowMissingCAA: set.AllowMissingCAA,
	}
	for _, f := range []struct {
		place  string
		sealed mesh.Sealed
		to     *mesh.Secret
	}{
		{store.ACMEAccountPlace(), set.AccountKey, &o.AccountKey}, {store.DNSCredentialPlace(), set.DNS.Credential, &o.Credential},
		{store.ACMEExternalPlace(), set.ExternalKey, &o.ExternalKey},
	} {
		if f.sealed == "" {
			continue
		}
		var err error
		if *f.to, err = s.Store.Unseal(f.place, f.sealed); err != nil {
			return nil, err
		}
	}
	o.DNS.Credential = ""
	return o, nil
}

// give orders what is wanted. What is under way and still wanted goes on.
func (s *Service) give(t *term, order *chores.CertsOrder, wants []want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]flight{}
	for _, w := range wants {
		f, ok := t.flight[w.id]
		if !ok || f.name != w.name || !bytes.Equal(f.request, w.request) || f.directory != order.Directory {
			s.attempt++
			f = flight{s.attempt, w.name, w.request, order.Directory}
		}
		next[w.id] = f
		order.Requests = append(order.Requests, chores.CertRequest{ID: w.id, Attempt: f.attempt, Name: w.name, Request: w.request})
	}
	t.flight = next
	if len(wants) == 0 {
		order = nil
	}
	if (order == nil) != (t.order == nil) || order != nil && len(order.Requests) != len(t.order.Requests) {
		s.Wake()
	}
	t.order = order
}
