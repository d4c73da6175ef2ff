package alerts

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// again is how long after a fault the events are read anew.
const again = time.Second

// window is a copy of the events of the last alert.Window.
//
//	list ──▶ watch ──fault──▶ list …
type window struct {
	store *store.Store
	now   func() time.Time

	mu     sync.Mutex // guards what follows
	events map[string]store.Item[mesh.Event]
	sorted []store.Item[mesh.Event] // of events, oldest first; nil: to be made
	rev    store.Rev                // everything written until then is there
	wake   chan struct{}            // closed by the next event
	synced bool
}

func newWindow(st *store.Store, now func() time.Time) *window {
	return &window{store: st, now: now, events: map[string]store.Item[mesh.Event]{}, wake: make(chan struct{})}
}

func (w *window) run(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			log.Debug("events interrupted", "err", err)
		}
		t := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

func (w *window) follow(ctx context.Context) error {
	rev, err := w.store.View(ctx, func(tx *store.Tx) error {
		_, err := store.Get(tx, w.store.Config, store.ConfigKey)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.list(ctx, rev); err != nil {
		return err
	}
	for ev, err := range w.store.Events.Watch(ctx, rev) {
		if err != nil {
			return err
		}
		if !ev.Deleted {
			w.add(ev.Rev, store.Item[mesh.Event]{Key: ev.Key, Value: ev.Value, Rev: ev.Rev})
		}
	}
	return nil
}

// list reads back to the beginning of the window; what is written meanwhile comes
// with the watch from rev on.
func (w *window) list(ctx context.Context, rev store.Rev) error {
	from := w.now().Add(-alert.Window)
	for before := ""; ; {
		items, next, err := w.store.Events.Latest(ctx, before, 500)
		if err != nil {
			return err
		}
		for _, it := range items {
			if it.Value.Time.Before(from) {
				next = ""
				break
			}
			if it.Rev <= rev {
				w.add(0, it)
			}
		}
		if before = next; before == "" {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rev, w.synced = max(w.rev, rev), true
	return nil
}

func (w *window) add(rev store.Rev, it store.Item[mesh.Event]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[it.Key] = it
	w.sorted, w.rev = nil, max(w.rev, rev)
	close(w.wake)
	w.wake = make(chan struct{})
}

// news returns a channel that the next event closes.
func (w *window) news() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wake
}

// all are the events of the window, the first that was written first, and the moment up to which they
// are all there; false before they were read.
func (w *window) all() ([]store.Item[mesh.Event], store.Rev, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.now().Add(-alert.Window)
	if w.sorted == nil {
		for id, it := range w.events {
			if it.Value.Time.Before(from) {
				delete(w.events, id)
			}
		}
		w.sorted = make([]store.Item[mesh.Event], 0, len(w.events))
		for _, it := range w.events {
			w.sorted = append(w.sorted, it)
		}
		// In the order in which they were written: ids are of the clocks of several
		// servers, and an end must not come before its beginning.
		slices.SortFunc(w.sorted, func(a, b store.Item[mesh.Event]) int {
			return cmp.Or(cmp.Compare(a.Rev, b.Rev), cmp.Compare(a.Key, b.Key))
		})
	}
	return w.sorted, w.rev, w.synced
}
