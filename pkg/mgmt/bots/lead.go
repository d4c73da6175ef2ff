package bots

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

var (
	_ chores.Bot    = (*Service)(nil)
	_ chores.Outbox = (*Service)(nil)
)

// term is one time in the office.
type term struct {
	over    <-chan struct{}
	outbox  *store.Mirror[string, mesh.Notice]
	state   mesh.BotState // guarded by Service.mu
	changed chan struct{} // state is to be written soon
}

// Order asks for the bot where a token is configured.
func (s *Service) Order() *chores.BotOrder {
	if s.Connection.Token == "" {
		return nil
	}
	key, err := s.Store.Derive("buttons")
	if err != nil {
		return nil // there is no mesh yet
	}
	return &chores.BotOrder{Token: s.Connection.Token, APIs: s.Connection.APIs, Proxy: s.Connection.Proxy, Mesh: s.Mesh, Key: key}
}

// Lead does what is to be done once in the mesh, until ctx ends.
func (s *Service) Lead(ctx context.Context) error {
	st, err := s.state(ctx)
	if err != nil {
		return fmt.Errorf("bots: read how the bot went: %w", err)
	}
	st.Server, st.State, st.Since, st.Failures = s.Server, "", s.now(), 0
	st.Ignored, st.Updates, st.Sent = 0, 0, 0
	t := &term{
		over: ctx.Done(), outbox: store.NewMirror(s.Store.Outbox),
		state: st, changed: make(chan struct{}, 1),
	}
	shown, tokens := store.NewMirror(s.Store.Shown), store.NewMirror(s.Store.Tokens)
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		t.outbox.Run, shown.Run, tokens.Run,
		func(ctx context.Context) error { return s.lead(ctx, t) },
		func(ctx context.Context) error { return s.keepState(ctx, t) },
		func(ctx context.Context) error { return s.keepOutbox(ctx, t) },
		func(ctx context.Context) error { return s.keepFates(ctx, shown, tokens) },
		s.keepNews, s.keepEnds,
	} {
		g.Go(func() error { return run(ctx) })
	}
	err = g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead is the term of this server from when its mirrors are complete.
func (s *Service) lead(ctx context.Context, t *term) error {
	if t.outbox.Synced(ctx) != nil {
		return nil // ctx has ended
	}
	s.set(func() { s.term = t })
	defer s.set(func() { s.term = nil })
	<-ctx.Done()
	return nil
}

func (s *Service) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// leads is the term of this server; nil: it does not lead.
func (s *Service) leads() *term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// Ended takes note of how the bot goes.
func (s *Service) Ended(out chores.BotOutcome) {
	s.set(func() {
		t := s.term
		if t == nil {
			return
		}
		st := &t.state
		if st.State != out.State {
			st.State, st.Since = out.State, s.now()
		}
		st.Failures, st.API = out.Failures, out.API
		st.Ignored, st.Updates, st.Sent = out.Ignored, out.Updates, out.Sent
		if out.Username != "" {
			st.Username = out.Username
		}
		select {
		case t.changed <- struct{}{}:
		default:
		}
	})
}
