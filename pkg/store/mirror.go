package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Mirror is a copy of a collection in memory that follows the store. While the
// store is away it keeps what it has.
//
//	list ──▶ follow ──watch ends, compacted, or 5 minutes passed──▶ list …
//	  └─ fails ─▶ wait (up to 3 s, jittered) ─▶ list
//
// The regular list repairs what a watch that looks alive failed to deliver.
type Mirror[K ~string, V any] struct {
	c     *Collection[K, V]
	every time.Duration // between full compares

	mu      sync.Mutex // guards what follows
	items   map[K]Item[V]
	rev     Rev
	all     map[K]V // copy of items for All; nil when they differ
	changed chan struct{}

	synced chan struct{} // closed by the first list
	once   sync.Once
}

const (
	compareEvery = 5 * time.Minute
	relistMin    = 500 * time.Millisecond
	relistMax    = 3 * time.Second // etcd is near, and what it knows is wanted soon
)

// NewMirror returns an empty mirror; Run fills it.
func NewMirror[K ~string, V any](c *Collection[K, V]) *Mirror[K, V] {
	return &Mirror[K, V]{c: c, every: compareEvery, items: map[K]Item[V]{}, changed: make(chan struct{}), synced: make(chan struct{})}
}

// Run follows the store until ctx ends, which is its only way to end.
func (m *Mirror[K, V]) Run(ctx context.Context) error {
	for failed := 0; ctx.Err() == nil; {
		began := time.Now()
		err := m.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if err == nil || errors.Is(err, ErrCompacted) {
			failed = 0
			continue
		}
		m.c.s.log.Warn("mirror interrupted", "kind", m.c.kind.name, "err", err)
		if time.Since(began) > relistMax {
			failed = 0
		}
		m.rest(ctx, failed)
		failed++
	}
	return nil
}

// rest waits with full jitter under a limit that doubles.
func (m *Mirror[K, V]) rest(ctx context.Context, failed int) {
	limit := min(relistMax, relistMin<<min(failed, 5))
	t := time.NewTimer(limit/4 + rand.N(limit*3/4))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// follow lists once and then applies changes until the watch ends. It returns
// nil when it is time to compare.
func (m *Mirror[K, V]) follow(ctx context.Context) error {
	items, rev, err := m.c.items(ctx)
	if err != nil {
		return err
	}
	if err := m.replace(items, rev); err != nil {
		return err
	}
	m.once.Do(func() { close(m.synced) })
	watch, cancel := context.WithTimeout(ctx, m.every)
	defer cancel()
	for ev, err := range m.c.Watch(watch, rev) {
		if err != nil {
			return err
		}
		m.apply(ev)
	}
	return nil
}

// replace takes a full list, unless it is older than what the mirror has, or
// empty at the very moment at which the mirror is not.
func (m *Mirror[K, V]) replace(items []Item[V], rev Rev) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rev < m.rev || (rev == m.rev && len(items) == 0 && len(m.items) > 0) {
		return fmt.Errorf("store: mirror %s: the store went back from revision %d to %d: %w", m.c.kind.folder, m.rev, rev, mesh.ErrUnavailable)
	}
	next := make(map[K]Item[V], len(items))
	for _, it := range items {
		next[K(it.Key)] = it
	}
	same := maps.EqualFunc(m.items, next, func(a, b Item[V]) bool { return a.Rev == b.Rev })
	m.items, m.rev = next, rev
	if !same {
		m.tellLocked()
	}
	return nil
}

func (m *Mirror[K, V]) apply(ev Event[K, V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ev.Deleted {
		delete(m.items, ev.Key)
	} else {
		m.items[ev.Key] = Item[V]{Key: string(ev.Key), Value: ev.Value, Rev: ev.Rev}
	}
	m.rev = max(m.rev, ev.Rev)
	m.tellLocked()
}

func (m *Mirror[K, V]) tellLocked() {
	m.all = nil
	close(m.changed)
	m.changed = make(chan struct{})
}

// Synced waits for the first full list.
func (m *Mirror[K, V]) Synced(ctx context.Context) error {
	select {
	case <-m.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("store: mirror %s: not yet listed: %w", m.c.kind.folder, mesh.ErrUnavailable)
	}
}

// Get returns the object as last seen.
func (m *Mirror[K, V]) Get(id K) (V, bool) {
	it, ok := m.Item(id)
	return it.Value, ok
}

// Item is Get with the moment of the object's last change.
func (m *Mirror[K, V]) Item(id K) (Item[V], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it, ok := m.items[id]
	return it, ok
}

// All returns all objects as last seen. The map is a snapshot shared by all
// callers: do not modify it.
func (m *Mirror[K, V]) All() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = make(map[K]V, len(m.items))
		for k, it := range m.items {
			m.all[k] = it.Value
		}
	}
	return m.all
}

// Rev is the last moment at which the mirror is known to have been complete. It
// rises with changes of its own kind only: for one moment of several kinds use
// Store.View.
func (m *Mirror[K, V]) Rev() Rev {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rev
}

// Changed returns a channel that is closed by the next change. Take it before
// reading, or a change in between is missed.
func (m *Mirror[K, V]) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}
