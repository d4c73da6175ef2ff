package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// threadAge is how long a reply to a message of the bot still finds its way.
	threadAge = 30 * 24 * time.Hour
	// talkGrace is how long what is over stays for whoever looks after it: who
	// sends notices drops them after a day and counts them, who shows tokens takes
	// their message away.
	talkGrace = 48 * time.Hour
	talkBatch = 30 // what one transaction deletes
)

// trimTalk removes what the bot no longer waits for.
func (s *Store) trimTalk(ctx context.Context, now time.Time) (removed int64, err error) {
	over := now.Add(-talkGrace)
	update := func(ctx context.Context, f func(*Tx) error) (Rev, error) { return s.Update(ctx, f) }
	change := func(ctx context.Context, f func(*Tx) error) (Rev, error) {
		return s.Change(ctx, By{Actor: "system:trim"}, "telegram code trim", f)
	}
	steps := []func() (int64, error){
		func() (int64, error) {
			return trimOver(ctx, s.Chats, update, func(c mesh.TelegramChat) bool { return c.Until.Before(now) })
		},
		func() (int64, error) {
			return trimOver(ctx, s.Threads, update, func(t mesh.TelegramThread) bool { return t.Created.Before(now.Add(-threadAge)) })
		},
		func() (int64, error) {
			return trimOver(ctx, s.TelegramCodes, change, func(c mesh.TelegramCode) bool { return c.Expires.Before(now) })
		},
		func() (int64, error) {
			return trimOver(ctx, s.Shown, update, func(v mesh.TelegramShown) bool { return v.Expires.Before(over) })
		},
		func() (int64, error) {
			return trimOver(ctx, s.Outbox, update, func(n mesh.Notice) bool { return n.Created.Before(over) })
		},
	}
	for _, step := range steps {
		n, err := step()
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// trimOver deletes the objects that are over, and looks again at each in the
// transaction that does it.
func trimOver[K ~string, V any](ctx context.Context, c *Collection[K, V], write func(context.Context, func(*Tx) error) (Rev, error), over func(V) bool) (removed int64, err error) {
	all, _, err := c.List(ctx)
	if err != nil {
		return 0, err
	}
	maps.DeleteFunc(all, func(_ K, v V) bool { return !over(v) })
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(all)), talkBatch) {
		var n int64
		_, err := write(ctx, func(tx *Tx) error {
			n = 0
			for _, id := range batch {
				v, err := Get(tx, c, id)
				if err == nil && over(v) {
					n++
					err = Delete(tx, c, id)
				}
				if err := absent(err); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
