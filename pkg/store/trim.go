package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TrimPolicy says what is kept. A zero field keeps everything by that measure.
type TrimPolicy struct {
	EventAge    time.Duration
	EventNumber int64
	AuditAge    time.Duration
	AuditNumber int64
	// Exported is the moment that a backup shows: audit records that were chained
	// after it stay, until there are AuditLimit. Nil: nothing waits for a backup.
	Exported   *Rev
	AuditLimit int64
	// LinkAge is how long the links of the chain over the audit records are kept.
	LinkAge time.Duration
}

// DefaultTrim is what a mesh keeps unless told otherwise.
func DefaultTrim() TrimPolicy {
	const day = 24 * time.Hour
	return TrimPolicy{
		EventAge: 30 * day, EventNumber: 20_000,
		AuditAge: 30 * day, AuditNumber: 10_000, AuditLimit: 200_000, LinkAge: 400 * day,
	}
}

const (
	trimBatch    = 1000 // keys that one request deletes
	revokedBatch = 20   // revocations that one transaction deletes
	onceAge      = 30 * 24 * time.Hour
	// maxRemembered bounds the revocations that are kept for restores alone, of
	// devices and members; nodes keep 50,000 records of all kinds.
	maxRemembered = 20_000
)

// Trim removes events and audit records that are too old or too many,
// revocations whose last certificate has ended, and what the bot no longer waits
// for. It returns how many objects it removed. Deleting a little twice does no harm, so every server may call it.
func (s *Store) Trim(ctx context.Context, p TrimPolicy, now time.Time) (removed int64, err error) {
	steps := []func() (int64, error){
		func() (int64, error) { return s.trim(ctx, folderEvents, p.EventAge, p.EventNumber, now) },
		func() (int64, error) { return s.trimAudit(ctx, p, now) },
		func() (int64, error) { return s.trimRevocations(ctx, now) },
		func() (int64, error) { return s.trimOnce(ctx, now) },
		func() (int64, error) { return s.trimTalk(ctx, now) },
	}
	for _, step := range steps {
		n, err := step()
		removed += n
		if err != nil {
			return removed, fmt.Errorf("store: trim: %w", err)
		}
	}
	return removed, nil
}

func (s *Store) trim(ctx context.Context, folder string, age time.Duration, number int64, now time.Time) (removed int64, err error) {
	prefix := folderPrefix(folder)
	if age > 0 {
		n, err := s.deleteUpTo(ctx, prefix, prefix+timePrefix(now.Add(-age)), -1)
		if removed += n; err != nil {
			return removed, err
		}
	}
	if number > 0 {
		resp, err := s.get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return removed, wrap("count "+folder, err)
		}
		if extra := resp.Count - number; extra > 0 {
			n, err := s.deleteUpTo(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix), extra)
			if removed += n; err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// deleteUpTo deletes the first keys from one key to before another, at most
// limit if that is not negative, in batches.
func (s *Store) deleteUpTo(ctx context.Context, from, to string, limit int64) (removed int64, err error) {
	for limit != 0 {
		batch := int64(trimBatch)
		if limit > 0 {
			batch = min(batch, limit)
		}
		resp, err := s.get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(batch), clientv3.WithKeysOnly())
		if err != nil {
			return removed, wrap("list", err)
		}
		if len(resp.Kvs) == 0 {
			return removed, nil
		}
		last := string(resp.Kvs[len(resp.Kvs)-1].Key)
		if err := s.erase(ctx, from, clientv3.WithRange(last+"\x00")); err != nil {
			return removed, wrap("delete", err)
		}
		n := int64(len(resp.Kvs))
		removed += n
		if limit > 0 {
			limit -= n
		}
	}
	return removed, nil
}

// trimRevocations removes the records whose last certificate has ended, since they
// refuse nothing any more, and the oldest of those that are for restores alone.
func (s *Store) trimRevocations(ctx context.Context, now time.Time) (removed int64, err error) {
	all, _, err := s.Revocations.List(ctx)
	if err != nil {
		return 0, err
	}
	var over []string
	for id, r := range all {
		if !r.Record.Until.IsZero() && r.Record.Until.Before(now) {
			over = append(over, id)
			delete(all, id)
		}
	}
	over = append(over, beyondMemory(all, maxRemembered)...)
	for len(over) > 0 {
		batch := over[:min(revokedBatch, len(over))]
		over = over[len(batch):]
		_, err := s.Change(ctx, By{Actor: "system:trim"}, "revocation trim", func(tx *Tx) error {
			for _, id := range batch {
				if err := absent(Delete(tx, s.Revocations, id)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed += int64(len(batch))
	}
	return removed, nil
}

// beyondMemory are the oldest of the records of devices and members when there are
// more than limit. The ids of records rise in the order of writing.
func beyondMemory(all map[string]mesh.SignedRevocation, limit int) []string {
	var ids []string
	for id, r := range all {
		if strings.HasPrefix(r.Record.Node, mesh.ObjectDevice) || strings.HasPrefix(r.Record.Node, mesh.ObjectMember) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:max(0, len(ids)-limit)]
}
