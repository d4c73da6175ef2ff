package store

import (
	"context"
	"fmt"
	"iter"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Event is one change of one object.
type Event[K ~string, V any] struct {
	Key     K
	Deleted bool
	Value   V // zero when deleted
	Rev     Rev
}

// Watch yields what was changed after the given moment, in order, until ctx ends
// or the loop breaks. It yields at most one error, as its last: ErrCompacted
// when the moment is too long ago, so list again and watch from there;
// ErrUnavailable when the etcd member that serves it has lost its cluster.
func (c *Collection[K, V]) Watch(ctx context.Context, after Rev) iter.Seq2[Event[K, V], error] {
	return func(yield func(Event[K, V], error) bool) {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel() // ends the watch at the server
		for resp := range c.s.client.Watch(ctx, c.prefix(), clientv3.WithPrefix(), clientv3.WithRev(int64(after)+1)) {
			if err := resp.Err(); err != nil {
				if ctx.Err() == nil {
					yield(Event[K, V]{}, wrap("watch "+c.kind.folder, err))
				}
				return
			}
			for _, ev := range resp.Events {
				e, err := c.event(ev)
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
		if ctx.Err() == nil {
			yield(Event[K, V]{}, fmt.Errorf("store: watch %s: the connection was closed: %w", c.kind.folder, mesh.ErrUnavailable))
		}
	}
}

func (c *Collection[K, V]) event(ev *clientv3.Event) (Event[K, V], error) {
	e := Event[K, V]{
		Key:     K(c.idOf(ev.Kv.Key)),
		Deleted: ev.Type == clientv3.EventTypeDelete,
		Rev:     Rev(ev.Kv.ModRevision),
	}
	if e.Deleted {
		return e, nil
	}
	v, err := c.decode(ev.Kv.Key, ev.Kv.Value)
	e.Value = v
	return e, err
}
