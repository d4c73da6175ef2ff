package alerts

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// stateEvery is how often what goes on as before is written.
const stateEvery = 5 * time.Minute

// Hooks is the server's side of webhooks (chores.Hooks).
type Hooks struct {
	Store *store.Store
	Wake  func() // has the orders asked for now
	Log   *slog.Logger
	Now   func() time.Time // nil: time.Now

	mu    sync.Mutex // guards what follows
	order *chores.HooksOrder
	ended map[string]chores.HookOutcome // not yet written, by name
	news  chan struct{}                 // has room for one
	posts map[string]float64            // by outcome
}

var _ chores.Hooks = (*Hooks)(nil)

func (h *Hooks) now() time.Time {
	if h.Now != nil {
		return h.Now().UTC()
	}
	return time.Now().UTC()
}

func (h *Hooks) beginLocked() {
	if h.news == nil {
		h.news, h.ended, h.posts = make(chan struct{}, 1), map[string]chores.HookOutcome{}, map[string]float64{}
	}
}

// Lead keeps the order what the store says, and notes how posts go.
func (h *Hooks) Lead(ctx context.Context) error {
	h.mu.Lock()
	h.beginLocked()
	news := h.news
	h.mu.Unlock()
	defer h.give(nil)
	hooks := store.NewMirror(h.Store.Hooks)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = hooks.Run(ctx) }) // it ends with ctx, and without an error
	if hooks.Synced(ctx) != nil {
		return nil
	}
	for {
		changed := hooks.Changed()
		h.give(h.opened(hooks.All()))
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-news:
			h.note(ctx)
		}
	}
}

// opened is the order for these webhooks. One that cannot be opened is left out: it
// shows in the list as one of which nothing is known.
func (h *Hooks) opened(all map[string]mesh.Webhook) *chores.HooksOrder {
	o := &chores.HooksOrder{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		url, err := h.Store.Unseal(store.HookURLPlace(name), all[name].URL)
		secret, err2 := h.Store.Unseal(store.HookSecretPlace(name), all[name].Secret)
		if err := errors.Join(err, err2); err != nil {
			h.Log.Warn("webhook not opened", "name", name, "err", err)
			continue
		}
		o.Hooks = append(o.Hooks, chores.Hook{Name: name, URL: url, Secret: secret})
	}
	if len(o.Hooks) == 0 {
		return nil
	}
	return o
}

func (h *Hooks) give(o *chores.HooksOrder) {
	h.mu.Lock()
	same := o == nil && h.order == nil || o != nil && h.order != nil && slices.Equal(o.Hooks, h.order.Hooks)
	h.order = o
	h.mu.Unlock()
	if !same && h.Wake != nil {
		h.Wake()
	}
}

// Order is what the child is to post to now.
func (h *Hooks) Order() *chores.HooksOrder {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.order
}

// Ended takes note of how posts to one webhook go.
func (h *Hooks) Ended(o chores.HookOutcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beginLocked()
	h.ended[o.Name] = o
	h.posts[o.Word]++
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// note writes what has changed of how posts go.
func (h *Hooks) note(ctx context.Context) {
	h.mu.Lock()
	ended := h.ended
	h.ended = map[string]chores.HookOutcome{}
	h.mu.Unlock()
	for name, o := range ended {
		if err := h.noteOne(ctx, o); err != nil && ctx.Err() == nil {
			h.Log.Warn("state of a webhook not written", "name", name, "err", err)
		}
	}
}

func (h *Hooks) noteOne(ctx context.Context, o chores.HookOutcome) error {
	_, err := h.Store.Update(ctx, func(tx *store.Tx) error {
		if _, err := store.Get(tx, h.Store.Hooks, o.Name); err != nil {
			if errors.Is(err, mesh.ErrNotFound) {
				return nil // it was removed meanwhile
			}
			return err
		}
		st, err := store.Get(tx, h.Store.HookStates, o.Name)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		next := after(st, o, h.now())
		switch {
		case absent:
			return store.Create(tx, h.Store.HookStates, o.Name, next)
		case next == st:
			return nil
		}
		return store.Update(tx, h.Store.HookStates, o.Name, func(s *mesh.HookState) error { *s = next; return nil })
	})
	return err
}

// after is a state after an outcome: the same when nothing is worth a write.
func after(st mesh.HookState, o chores.HookOutcome, now time.Time) mesh.HookState {
	was := st
	st.Name = o.Name
	if o.Done {
		st.Succeeded, st.Failures, st.Reason = now, 0, ""
		if was.Reason == "" && now.Sub(was.Succeeded) < stateEvery {
			return was
		}
		return st
	}
	st.Failed, st.Failures, st.Reason = now, o.Failures, o.Reason
	if was.Reason == o.Reason && now.Sub(was.Failed) < stateEvery {
		return was
	}
	return st
}
