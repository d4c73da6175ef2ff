package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// pageSize is how many objects one request to etcd lists.
const pageSize = 1000

// Collection is one kind of thing in the store.
type Collection[K ~string, V any] struct {
	s     *Store
	kind  kind
	id    func(V) K                              // nil: the id is not in the value
	names func(V) []label                        // nil: no labels
	check func(tx *Tx, before *V, after V) error // nil: no further rule
}

// Item is an object and the moment of its last change.
type Item[V any] struct {
	Key   string // its id
	Value V
	Rev   Rev
}

func (c *Collection[K, V]) prefix() string { return folderPrefix(c.kind.folder) }

func (c *Collection[K, V]) idOf(key []byte) string {
	return strings.TrimPrefix(string(key), c.prefix())
}

func (c *Collection[K, V]) decode(key, value []byte) (V, error) {
	v, err := codec.Decode[V](value)
	if err != nil {
		return v, fmt.Errorf("store: read %s: %w", strings.TrimPrefix(string(key), root), err)
	}
	return v, nil
}

// Get reads one object, linearizably. It returns ErrNotFound.
func (c *Collection[K, V]) Get(ctx context.Context, id K) (Item[V], error) {
	what := "get " + c.kind.name + " " + mesh.Quotable(string(id))
	key, err := keyOf(c.kind.folder, string(id))
	if err != nil {
		return Item[V]{}, err
	}
	resp, err := c.s.get(ctx, key)
	if err != nil {
		return Item[V]{}, wrap(what, err)
	}
	if len(resp.Kvs) == 0 {
		return Item[V]{}, fmt.Errorf("store: %s: %w", what, mesh.ErrNotFound)
	}
	kv := resp.Kvs[0]
	v, err := c.decode(kv.Key, kv.Value)
	return Item[V]{Key: string(id), Value: v, Rev: Rev(kv.ModRevision)}, err
}

// List reads all objects at one moment, which it returns.
func (c *Collection[K, V]) List(ctx context.Context) (map[K]V, Rev, error) {
	items, rev, err := c.items(ctx)
	if err != nil {
		return nil, 0, err
	}
	out := make(map[K]V, len(items))
	for _, it := range items {
		out[K(it.Key)] = it.Value
	}
	return out, rev, nil
}

// items is List with the moment of each object's last change, in order of id.
func (c *Collection[K, V]) items(ctx context.Context) ([]Item[V], Rev, error) {
	var out []Item[V]
	for range 3 { // a page can be compacted away between two requests
		kvs, rev, err := c.s.list(ctx, c.prefix(), 0)
		if errors.Is(err, rpctypes.ErrCompacted) {
			continue
		}
		if err != nil {
			return nil, 0, wrap("list "+c.kind.folder, err)
		}
		out = slices.Grow(out, len(kvs))
		for _, kv := range kvs {
			v, err := c.decode([]byte(kv.key), kv.data)
			if err != nil {
				return nil, 0, err
			}
			out = append(out, Item[V]{Key: c.idOf([]byte(kv.key)), Value: v, Rev: kv.rev})
		}
		return out, rev, nil
	}
	return nil, 0, wrap("list "+c.kind.folder, ErrCompacted)
}

// Page reads up to limit objects with ids after the given one, in order of id,
// and the id to go on after, "" at the end. Pages are not of one moment.
func (c *Collection[K, V]) Page(ctx context.Context, after K, limit int) ([]Item[V], K, error) {
	from := c.prefix()
	if after != "" {
		key, err := keyOf(c.kind.folder, string(after))
		if err != nil {
			return nil, "", err
		}
		from = key + "\x00"
	}
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	resp, err := c.s.get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(c.prefix())), clientv3.WithLimit(int64(limit)))
	if err != nil {
		return nil, "", wrap("list "+c.kind.folder, err)
	}
	return c.decodePage(resp)
}

func (c *Collection[K, V]) decodePage(resp *clientv3.GetResponse) ([]Item[V], K, error) {
	out := make([]Item[V], 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		v, err := c.decode(kv.Key, kv.Value)
		if err != nil {
			return nil, "", err
		}
		out = append(out, Item[V]{Key: c.idOf(kv.Key), Value: v, Rev: Rev(kv.ModRevision)})
	}
	var next K
	if resp.More && len(out) > 0 {
		next = K(out[len(out)-1].Key)
	}
	return out, next, nil
}

// Lookup finds an object by its id or its label. A device's label is unique
// within its member only: "member/label" says which. It returns ErrNotFound
// with similar labels as a hint.
func (c *Collection[K, V]) Lookup(ctx context.Context, ref string) (V, error) {
	var out V
	_, err := c.s.View(ctx, func(tx *Tx) (err error) {
		out, err = Lookup(tx, c, ref)
		return err
	})
	return out, err
}

// entry is one key as it was read.
type entry struct {
	key  string
	data []byte
	rev  Rev // of its last change; 0: the key is absent
}

// list reads a prefix in pages, all at revision at, or at 0 the newest, which it
// returns.
func (s *Store) list(ctx context.Context, prefix string, at Rev) ([]entry, Rev, error) {
	return s.listRange(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix), at)
}

// listRange is list from one key to before another.
func (s *Store) listRange(ctx context.Context, from, to string, at Rev) ([]entry, Rev, error) {
	var out []entry
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithLimit(pageSize)}
		if at != 0 {
			opts = append(opts, clientv3.WithRev(int64(at)))
		}
		resp, err := s.get(ctx, from, opts...)
		if err != nil {
			return nil, 0, err // translated by whoever knows what was listed
		}
		if at == 0 {
			at = Rev(resp.Header.Revision)
		}
		for _, kv := range resp.Kvs {
			out = append(out, entry{key: string(kv.Key), data: kv.Value, rev: Rev(kv.ModRevision)})
		}
		if !resp.More {
			return out, at, nil
		}
		from = out[len(out)-1].key + "\x00"
	}
}
