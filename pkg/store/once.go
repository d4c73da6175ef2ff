package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// ErrDone says that what Once names was done before. Nothing was written.
var ErrDone = fmt.Errorf("store: commit: %s: %w", mesh.DoneBefore, mesh.ErrExists)

// onceLife is how long it is remembered that something named by Once was done:
// twice as long as Telegram repeats an update.
const onceLife = 48 * time.Hour

// used is the value of a key under once/.
type used struct {
	At time.Time `json:"at"`
	// Until is when that may be forgotten; zero: onceAge after At.
	Until time.Time `json:"until,omitzero"`
}

// usedBefore says whether the key may be forgotten; not if it is damaged.
func usedBefore(e entry, now time.Time) bool {
	u, err := codec.Decode[used](e.data)
	if err != nil {
		return false
	}
	if u.Until.IsZero() {
		u.Until = u.At.Add(onceAge)
	}
	return u.Until.Before(now)
}

// UseOnce returns true to one caller for each key, whichever servers ask. A
// caller that gets an error does not know whether it was the one.
func (s *Store) UseOnce(ctx context.Context, key string) (first bool, err error) {
	at := onceKeyOf(key)
	_, err = s.Update(ctx, func(tx *Tx) error {
		e, err := tx.read(at, true)
		if err != nil {
			return err
		}
		if first = e.rev == 0; !first {
			return nil
		}
		return tx.use(at, used{At: time.Now().UTC()})
	})
	if err != nil {
		return false, fmt.Errorf("store: use once: %w", err)
	}
	return first, nil
}

// TellOnce records an event the first time it is called with that key.
func (s *Store) TellOnce(ctx context.Context, key string, e mesh.Event) error {
	at := onceKeyOf(key)
	_, err := s.Update(ctx, func(tx *Tx) error {
		have, err := tx.read(at, true)
		if err != nil || have.rev != 0 {
			return err
		}
		if err := tx.use(at, used{At: time.Now().UTC()}); err != nil {
			return err
		}
		return tx.Event(e)
	})
	return err
}

// Once returns a context for one request that must have its effect once, however
// often it arrives. The first Change under it that writes anything notes key in
// the same transaction, or returns ErrDone when it is noted already. What else
// the request changes goes on as usual after that. The note is kept for two days.
func Once(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, onceCtx{}, &once{key: onceKeyOf(key)})
}

// Done says whether a change under Once with that key was made.
func (s *Store) Done(ctx context.Context, key string) (bool, error) {
	resp, err := s.get(ctx, onceKeyOf(key))
	if err != nil {
		return false, wrap("look whether it was done", err)
	}
	return len(resp.Kvs) > 0, nil
}

type onceCtx struct{}

// once is what Once put into a context. A nil once asks for nothing.
type once struct {
	key  string
	done atomic.Bool // by this request
}

func onceOf(ctx context.Context, m mode) *once {
	o, _ := ctx.Value(onceCtx{}).(*once)
	if o == nil || m != auditing || o.done.Load() {
		return nil
	}
	return o
}

// unmade returns ErrDone when the key is there. It is asked first: what the
// change would find otherwise is what it made itself.
func (o *once) unmade(tx *Tx) error {
	if o == nil {
		return nil
	}
	e, err := tx.read(o.key, true)
	if err == nil && e.rev != 0 {
		err = ErrDone
	}
	return err
}

func (o *once) mark(tx *Tx) error {
	if o == nil {
		return nil
	}
	now := time.Now().UTC()
	return tx.use(o.key, used{At: now, Until: now.Add(onceLife)})
}

// made notes how the commit went. Of a commit whose outcome is not known, what
// the request does next finds the key, if it was made.
func (o *once) made(err error) {
	if o != nil && err == nil {
		o.done.Store(true)
	}
}

// use writes a key under once/ that was read with compare.
func (tx *Tx) use(at string, u used) error {
	data, err := codec.Encode(u)
	if err != nil {
		return err
	}
	tx.put(at, data, nil)
	return nil
}

func onceKeyOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return onceKey(hex.EncodeToString(sum[:]))
}

// trimOnce forgets what was used once, long after it could be used again.
func (s *Store) trimOnce(ctx context.Context, now time.Time) (removed int64, err error) {
	entries, _, err := s.list(ctx, folderPrefix(folderOnce), 0)
	if err != nil {
		return 0, wrap("list once", err)
	}
	for _, e := range entries {
		if !usedBefore(e, now) {
			continue
		}
		if err := s.erase(ctx, e.key); err != nil {
			return removed, wrap("delete once", err)
		}
		removed++
	}
	return removed, nil
}
