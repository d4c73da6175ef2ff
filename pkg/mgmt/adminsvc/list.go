package adminsvc

import (
	"context"
	"fmt"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	defaultPage = 200
	maxPage     = 1000
	// maxScan bounds how many objects one call reads for a filter that matches
	// few; the list goes on where it stopped.
	maxScan = 20_000
)

func pageSize(p admin.Page) (int, error) {
	switch {
	case p.Limit < 0:
		return 0, fmt.Errorf("admin: limit %d: want 0 or more: %w", p.Limit, mesh.ErrInvalid)
	case p.Limit == 0:
		return defaultPage, nil
	}
	return min(p.Limit, maxPage), nil
}

// pager reads a page of a collection.
type pager[K ~string, V any] func(ctx context.Context, after K, limit int) ([]store.Item[V], K, error)

// list reads objects until a page of those that show accepts is full. show
// returns what is shown of an object, and whether it is.
func list[K ~string, V, T any](ctx context.Context, p admin.Page, read pager[K, V], show func(string, V) (T, bool)) (admin.List[T], error) {
	return listUntil(ctx, p, read, show, func(V) bool { return false })
}

// listUntil is list that ends before the first object that lies beyond
// what is asked for.
func listUntil[K ~string, V, T any](ctx context.Context, p admin.Page, read pager[K, V], show func(string, V) (T, bool), beyond func(V) bool) (admin.List[T], error) {
	out := admin.List[T]{Items: []T{}}
	want, err := pageSize(p)
	if err != nil {
		return out, err
	}
	after := K(p.After)
	for scanned := 0; ; {
		items, next, err := read(ctx, after, want)
		if err != nil {
			return out, err
		}
		for i, it := range items {
			if beyond(it.Value) {
				return out, nil
			}
			if v, ok := show(it.Key, it.Value); ok {
				out.Items = append(out.Items, v)
			}
			if len(out.Items) == want {
				if next != "" || i < len(items)-1 {
					out.Next = it.Key
				}
				return out, nil
			}
		}
		scanned += len(items)
		if next == "" || scanned >= maxScan {
			out.Next = string(next)
			return out, nil
		}
		after = next
	}
}

// only is a filter by equality that an empty want passes.
func only[T ~string](want, have T) bool { return want == "" || want == have }
