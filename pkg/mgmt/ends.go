package mgmt

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// warnNode and warnCA are how long before its end a certificate is told of.
	warnNode = 7 * 24 * time.Hour
	warnCA   = 90 * 24 * time.Hour
)

// ownEnds tells of this server's certificates near their end.
func (k *keeper) ownEnds(ctx context.Context) error {
	now := k.now()
	for _, c := range k.own() {
		if c.Ends.Sub(now) > warnCA || c.What == certNode {
			continue
		}
		if err := k.tell(ctx, "ends "+c.What+c.Ends.UTC().Format(time.RFC3339)+now.UTC().Format("2006-01"), expiring("server/"+c.What, c.Ends,
			"see the runbook: it takes the root passphrase")); err != nil {
			return err
		}
	}
	return nil
}

// nodeEnds tells of nodes whose last certificate is near its end: they should
// have renewed it long ago.
func (k *keeper) nodeEnds(ctx context.Context) error {
	now := k.now()
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

// gone says whether the node was revoked or removed, or its pod deleted, so that
// nobody minds.
func (k *keeper) gone(ctx context.Context, node string) (bool, error) {
	role, id, _ := strings.Cut(node, "/")
	if mesh.Role(role) == mesh.RoleMgmt {
		return false, nil
	}
	var deleted bool
	_, err := k.store.View(ctx, func(tx *store.Tx) error {
		if _, err := welcome(tx, k.store, mesh.Identity{Role: mesh.Role(role), ID: id}); err != nil || mesh.Role(role) != mesh.RoleEntry {
			return err
		}
		e, err := store.Get(tx, k.store.Entries, mesh.EntryID(id))
		deleted = !e.Pod.Gone.IsZero()
		return err
	})
	if mesh.Kind(err) == mesh.ErrDenied {
		return true, nil
	}
	return deleted, err
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
