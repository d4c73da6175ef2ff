package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// NewTimeID returns an id that rises with time: 16 hex digits of microseconds
// since 1970 and 8 random ones. Events, audit records and revocations have such
// ids.
func NewTimeID(now time.Time) string {
	return timePrefix(now) + fmt.Sprintf("%08x", rand.Uint32())
}

// TimeIDBefore is less than every id of that time or later, and greater than
// every earlier one.
func TimeIDBefore(t time.Time) string { return timePrefix(t) }

func timePrefix(t time.Time) string { return fmt.Sprintf("%016x", max(0, t.UnixMicro())) }

// timeOf is the time in an id that NewTimeID made.
func timeOf(id string) (time.Time, bool) {
	if len(id) < 16 {
		return time.Time{}, false
	}
	us, err := strconv.ParseInt(id[:16], 16, 64)
	return time.UnixMicro(us), err == nil
}

// Latest reads up to limit objects before the given id, newest first; "" begins
// with the newest. It returns the id to go on before, "" at the end. It is for
// kinds whose ids rise with time.
func (c *Collection[K, V]) Latest(ctx context.Context, before K, limit int) ([]Item[V], K, error) {
	to, when := clientv3.GetPrefixRangeEnd(c.prefix()), time.Now()
	if before != "" {
		key, err := keyOf(c.kind.folder, string(before))
		if err != nil {
			return nil, "", err
		}
		to = key
		if t, ok := timeOf(string(before)); ok {
			when = t
		}
	}
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	from, more, err := c.window(ctx, when, to, int64(limit))
	if err != nil {
		return nil, "", wrap("list "+c.kind.folder, err)
	}
	resp, err := c.s.get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	if err != nil {
		return nil, "", wrap("list "+c.kind.folder, err)
	}
	resp.More = resp.More || more
	return c.decodePage(resp)
}

// window finds a key not long before to, such that at least limit keys lie
// between them, or all there are. etcd sorts by reading the whole range, so the
// range must be short; counting it is cheap.
func (c *Collection[K, V]) window(ctx context.Context, when time.Time, to string, limit int64) (from string, more bool, err error) {
	for span := time.Hour; span < 8*365*24*time.Hour; span *= 8 {
		from = c.prefix() + timePrefix(when.Add(-span))
		if from >= to {
			continue
		}
		resp, err := c.s.get(ctx, from, clientv3.WithRange(to), clientv3.WithCountOnly())
		if err != nil {
			return "", false, err
		}
		if resp.Count >= limit {
			return from, true, nil
		}
	}
	return c.prefix(), false, nil
}
