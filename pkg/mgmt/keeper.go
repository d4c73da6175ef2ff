package mgmt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/audits"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// The sizes are looked at every minute, in memory; the rest every hour.
	keepTick = time.Minute
	keepEach = 60 // ticks
	// retireTick is how often somebody looks whether the intermediate of a
	// removed server is still needed: until it is revoked, a thief may use it.
	retireTick = 5 * time.Second
	// nearlyFull is the part of etcd's quota at which people are told.
	nearlyFull = 0.8
	// noSpace is etcd's name for having reached it.
	noSpace = "NOSPACE"
	// keepCerts is how long the record of a certificate outlives it; certBatch
	// is how many one transaction deletes.
	keepCerts = 90 * 24 * time.Hour
	certBatch = 20
)

// keeper does the housekeeping: it trims what grows, and tells of ends that
// come near. What concerns the mesh is done by one server, which leads in that;
// what concerns its own database and certificates by each.
type keeper struct {
	store  *store.Store
	server mesh.ServerID
	etcd   *etcdPart
	// own are the ends of this server's certificates.
	own  func() []admin.CertEnd
	sign func(mesh.Revocation) (mesh.SignedRevocation, error)
	log  *slog.Logger
	now  func() time.Time
}

func (k *keeper) run(ctx context.Context) error {
	chain := &audits.Service{Store: k.store, Server: k.server, Log: k.log}
	return together(ctx, k.keepOwn, chain.Run, func(ctx context.Context) error {
		return k.store.Lead(ctx, "keeper", k.server, k.keepMesh)
	})
}

// keepOwn looks after this server.
func (k *keeper) keepOwn(ctx context.Context) error {
	return eachTick(ctx, keepTick, func(n int) {
		k.step(ctx, "quota", k.quota)
		if n%keepEach == 0 {
			k.step(ctx, "ends", k.ownEnds)
		}
	})
}

// keepMesh looks after what all servers share.
func (k *keeper) keepMesh(ctx context.Context) error {
	return eachTick(ctx, retireTick, func(n int) {
		k.step(ctx, "retire", k.retire)
		if n%int(keepTick/retireTick*keepEach) == 0 {
			k.step(ctx, "trim", k.trim)
			k.step(ctx, "ends", k.nodeEnds)
			k.step(ctx, "pods", k.dropPods)
		}
	})
}

// eachTick calls f every so often until ctx ends, with how often it did before.
func eachTick(ctx context.Context, every time.Duration, f func(n int)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f(n)
		}
	}
}

func (k *keeper) step(ctx context.Context, name string, f func(context.Context) error) {
	if err := f(ctx); err != nil && ctx.Err() == nil {
		k.log.Warn("housekeeping failed", "unit", name, "err", err)
	}
}

// trim counts from the end of the grace for renewal, within which a revocation
// still has something to refuse.
func (k *keeper) trim(ctx context.Context) error {
	cfg, err := k.store.Config.Get(ctx, store.ConfigKey)
	if err != nil {
		return err
	}
	now := k.now().Add(-time.Duration(cfg.Value.RenewGrace))
	policy := store.DefaultTrim()
	if policy.Exported, err = k.exported(ctx); err != nil {
		return err
	}
	n, err := k.store.Trim(ctx, policy, now)
	if n > 0 {
		k.log.Info("old records trimmed", "count", n)
	}
	return errors.Join(err, k.trimCerts(ctx, now))
}

// exported is the moment that a backup in a remote shows, 0 when there is none
// that is whole; nil when no backup is to hold the audit.
func (k *keeper) exported(ctx context.Context) (*store.Rev, error) {
	set, err := k.store.Backup.Get(ctx, store.BackupKey)
	if errors.Is(err, mesh.ErrNotFound) || err == nil && (len(set.Value.Recipients) == 0 || len(set.Value.Remotes) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state, err := k.store.BackupState.Get(ctx, store.BackupStateKey)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return nil, err
	}
	for _, r := range state.Value.Remotes {
		if r.Head != "" && r.Head == state.Value.Commit {
			return new(store.Rev(state.Value.Revision)), nil
		}
	}
	return new(store.Rev), nil
}

// trimCerts forgets certificates that ended long ago.
func (k *keeper) trimCerts(ctx context.Context, now time.Time) error {
	certs, _, err := k.store.Certs.List(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(certs, func(_ string, c mesh.CertRecord) bool { return now.Before(c.NotAfter.Add(keepCerts)) })
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(certs)), certBatch) {
		_, err := k.store.Update(ctx, func(tx *store.Tx) error {
			for _, serial := range batch {
				if err := store.Delete(tx, k.store.Certs, serial); err != nil && !errors.Is(err, mesh.ErrNotFound) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// quota tells people before etcd refuses changes, and lifts the refusal by
// itself once what is in use fits again: after a trim, or with a larger quota.
func (k *keeper) quota(ctx context.Context) error {
	s, err := k.etcd.status()
	if err != nil || s.Quota == 0 {
		return err
	}
	if slices.Contains(s.Alarms, noSpace) && float64(s.BytesUsed) < nearlyFull*float64(s.Quota) {
		k.log.Warn("recovering space in the store", "bytes", s.Bytes, "quota", s.Quota)
		return k.etcd.member.RecoverSpace(ctx)
	}
	if float64(s.Bytes) < nearlyFull*float64(s.Quota) {
		return nil
	}
	return k.tell(ctx, "store-nearly-full "+k.now().UTC().Format(time.DateOnly), mesh.Event{
		Type:     mesh.EventStoreNearlyFull,
		Severity: mesh.Critical,
		Object:   "store/etcd",
		Cause:    fmt.Sprintf("etcd takes %d of %d bytes; at the quota it refuses changes", s.Bytes, s.Quota),
		Advice:   "raise etcd.quota and restart the server, or find what grows: meshctl mgmt status",
	})
}

// tell writes an event the first time it is called with that key.
func (k *keeper) tell(ctx context.Context, key string, ev mesh.Event) error {
	return k.store.TellOnce(ctx, key, ev)
}
