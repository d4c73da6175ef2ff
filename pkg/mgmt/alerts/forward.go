package alerts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// forwardMost is how many events one transaction hands on.
const forwardMost = 40

// forward queues events for the webhooks that want every one, in the order of
// writing, and notes up to which in the same transaction. rev is up to when items
// are complete.
func (l *look) forward(ctx context.Context, items []store.Item[mesh.Event], rev store.Rev) error {
	var errs []error
	for name, h := range l.hooks.All() {
		if h.Events {
			errs = append(errs, l.forwardTo(ctx, name, items, rev))
		}
	}
	return errors.Join(errs...)
}

func (l *look) forwardTo(ctx context.Context, name string, items []store.Item[mesh.Event], rev store.Rev) error {
	if st, ok := l.states.Get(name); ok && st.Events >= newest(items, rev) {
		return nil
	}
	_, err := l.Store.Update(ctx, func(tx *store.Tx) error {
		h, err := store.Get(tx, l.Store.Hooks, name)
		if errors.Is(err, mesh.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		st, err := store.Get(tx, l.Store.HookStates, name)
		if errors.Is(err, mesh.ErrNotFound) {
			return store.Create(tx, l.Store.HookStates, name, mesh.HookState{Name: name, Events: int64(rev)})
		}
		if err != nil {
			return err
		}
		upTo := int64(rev) // when it hears of events for the first time: from now on
		if st.Events != 0 {
			if upTo, err = l.forwardEvents(tx, h, st.Events, items, rev); err != nil {
				return err
			}
		}
		return store.Update(tx, l.Store.HookStates, name, func(s *mesh.HookState) error { s.Events = upTo; return nil })
	})
	return err
}

// newest is the moment of the last event, or rev when there is none.
func newest(items []store.Item[mesh.Event], rev store.Rev) int64 {
	last := store.Rev(0)
	for _, it := range items {
		last = max(last, it.Rev)
	}
	if last == 0 {
		return int64(rev)
	}
	return int64(last)
}

// forwardEvents queues what was written after a moment, and returns up to when it
// did: all events of one transaction have one moment, which is not cut.
func (l *look) forwardEvents(tx *store.Tx, h mesh.Webhook, after int64, items []store.Item[mesh.Event], rev store.Rev) (int64, error) {
	fresh := since(items, after)
	upTo, n := max(after, int64(rev)), 0
	for i, it := range fresh {
		if n >= forwardMost && it.Rev != fresh[i-1].Rev {
			return int64(fresh[i-1].Rev), nil
		}
		if !alert.Reaches(it.Value.Severity, h.Least) {
			continue
		}
		e := it.Value
		if err := l.queue(tx, mesh.Notice{Kind: mesh.NoticeEvent, Created: l.now(), Event: &e}, mesh.ToHook(h.Name), l.now().Add(time.Duration(n)*time.Microsecond)); err != nil {
			return 0, err
		}
		n++
	}
	return upTo, nil
}

// since are the events written after a moment, in the order of writing.
func since(items []store.Item[mesh.Event], after int64) []store.Item[mesh.Event] {
	var out []store.Item[mesh.Event]
	for _, it := range items {
		if int64(it.Rev) > after {
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b store.Item[mesh.Event]) int {
		return cmp.Or(cmp.Compare(a.Rev, b.Rev), cmp.Compare(a.Key, b.Key))
	})
	return out
}
