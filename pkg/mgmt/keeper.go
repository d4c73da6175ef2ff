package mgmt

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// The sizes are looked at every minute, in memory; the rest every hour.
	keepTick = time.Minute
	keepEach = 60 // ticks
	// nearlyFull is the part of etcd's quota at which people are told.
	nearlyFull = 0.8
	// noSpace is etcd's name for having reached it.
	noSpace = "NOSPACE"
	// warnNode and warnCA are how long before its end a certificate is told of.
	warnNode = 7 * 24 * time.Hour
	warnCA   = 90 * 24 * time.Hour
)

// keeper does the housekeeping: it trims what grows, and tells of ends that
// come near. Every step may be done by several servers, or twice.
type keeper struct {
	store *store.Store
	etcd  *etcdPart
	// own are the ends of this server's certificates.
	own func() []admin.CertEnd
	log *slog.Logger
	now func() time.Time
}

func (k *keeper) run(ctx context.Context) error {
	tick := time.NewTicker(keepTick)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		k.step(ctx, "quota", k.quota)
		if n%keepEach == 0 {
			k.step(ctx, "trim", k.trim)
			k.step(ctx, "ends", k.ends)
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
	n, err := k.store.Trim(ctx, store.DefaultTrim(), k.now().Add(-time.Duration(cfg.Value.RenewGrace)))
	if n > 0 {
		k.log.Info("old records trimmed", "count", n)
	}
	return err
}

// quota tells people before etcd refuses changes, and lifts the refusal by
// itself once what is in use fits again: after a trim, or with a larger quota.
func (k *keeper) quota(ctx context.Context) error {
	s, err := k.etcd.status()
	if err != nil || s.Quota == 0 {
		return err
	}
	if slices.Contains(s.Alarms, noSpace) && float64(s.BytesUsed) < nearlyFull*float64(s.Quota) {
		k.log.Warn("recovering space in the store", "bytes", s.Bytes, "used", s.BytesUsed, "quota", s.Quota)
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

// ends tells of certificates near their end: this server's, and of each node
// the one that ends last, which it should have renewed long ago.
func (k *keeper) ends(ctx context.Context) error {
	now := k.now()
	for _, c := range k.own() {
		if c.Ends.Sub(now) > warnCA || c.What == certNode {
			continue
		}
		if err := k.tell(ctx, "ends "+c.What+c.Ends.String()+now.UTC().Format("2006-01"), expiring("server/"+c.What, c.Ends,
			"see the runbook: it takes the root passphrase")); err != nil {
			return err
		}
	}
	certs, _, err := k.store.Certs.List(ctx)
	if err != nil {
		return err
	}
	last := lastOf(certs)
	for _, node := range slices.Sorted(maps.Keys(last)) {
		rec := last[node]
		if !late(rec, now) {
			continue
		}
		if gone, err := k.gone(ctx, node); err != nil || gone {
			if err != nil {
				return err
			}
			continue
		}
		if err := k.tell(ctx, "ends "+rec.Serial, expiring(node, rec.NotAfter,
			"the node has not renewed it: see whether it runs and reaches a management server")); err != nil {
			return err
		}
	}
	return nil
}

// lastOf is each node's certificate that ends last.
func lastOf(certs map[string]mesh.CertRecord) map[string]mesh.CertRecord {
	last := make(map[string]mesh.CertRecord)
	for _, c := range certs {
		if have, ok := last[c.Node]; !ok || c.NotAfter.After(have.NotAfter) {
			last[c.Node] = c
		}
	}
	return last
}

// late says whether a certificate should have been renewed: it is in the last
// sixth of its life, a week at most, and has not ended yet.
func late(c mesh.CertRecord, now time.Time) bool {
	left := c.NotAfter.Sub(now)
	return left > 0 && left < min(warnNode, c.NotAfter.Sub(c.Issued)/6)
}

// gone says whether the node was revoked or removed, so that nobody minds.
func (k *keeper) gone(ctx context.Context, node string) (bool, error) {
	role, id, _ := strings.Cut(node, "/")
	if mesh.Role(role) == mesh.RoleMgmt {
		return false, nil
	}
	_, err := k.store.View(ctx, func(tx *store.Tx) error {
		_, err := welcome(tx, k.store, mesh.Identity{Role: mesh.Role(role), ID: id})
		return err
	})
	if mesh.Kind(err) == mesh.ErrDenied {
		return true, nil
	}
	return false, err
}

func expiring(object string, end time.Time, advice string) mesh.Event {
	return mesh.Event{
		Type:     mesh.EventCertExpiring,
		Severity: mesh.Warning,
		Object:   object,
		Cause:    "the certificate ends at " + end.UTC().Format(time.RFC3339),
		Advice:   advice,
	}
}

// tell writes an event the first time it is called with that key.
func (k *keeper) tell(ctx context.Context, key string, ev mesh.Event) error {
	first, err := k.store.UseOnce(ctx, key)
	if err != nil || !first {
		return err
	}
	_, err = k.store.Update(ctx, func(tx *store.Tx) error { return tx.Event(ev) })
	return err
}
