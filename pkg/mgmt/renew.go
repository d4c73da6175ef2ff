package mgmt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// renewals is how many certificates a node may have in one life of them: each
	// stays on record, and a node that wants more means no good. renewalBurst of
	// them may come at once.
	renewals     = 30
	renewalBurst = 20
)

// renewal is the Renewal service: whoever has a certificate that is still good
// gets the next one, for the same identity.
type renewal struct {
	controlpb.UnimplementedRenewalServer

	store *store.Store
	ca    issuer
	often *ratelimit.Limiter[string] // by node
	log   *slog.Logger
	now   func() time.Time
}

// Renew implements the service.
func (r *renewal) Renew(ctx context.Context, req *controlpb.RenewRequest) (*controlpb.RenewResponse, error) {
	resp, err := r.renew(ctx, req)
	return resp, outward(r.log, "renew", err)
}

func (r *renewal) renew(ctx context.Context, req *controlpb.RenewRequest) (*controlpb.RenewResponse, error) {
	p, ok := identity.PeerFromContext(ctx)
	if !ok {
		return nil, fmt.Errorf("mgmt: renew: no certificate: %w", mesh.ErrDenied)
	}
	cfg, err := r.store.Config.Get(ctx, store.ConfigKey)
	if err != nil {
		return nil, fmt.Errorf("mgmt: renew %s: %w", p.Node(), err)
	}
	life := cfg.Value.CertLife.Of(p.Role)
	if !r.often.AllowEvery(p.Node(), life/renewals, r.now()) {
		return nil, rpcstatus.To(fmt.Errorf("mgmt: renew %s: it did so too often: %w", p.Node(), mesh.ErrUnavailable))
	}
	if err := r.check(ctx, p, time.Duration(cfg.Value.RenewGrace)); err != nil {
		return nil, err
	}
	if err := r.adopt(ctx, p, cfg.Value.Restored); err != nil {
		return nil, err
	}
	// The authority refuses what is not on record for this node, or revoked.
	chain, _, err := r.ca.Issue(ctx, ca.Request{
		Identity: p.Identity,
		CSR:      req.GetCsr(),
		Life:     life,
		Replaces: p.Serial,
	})
	if err != nil {
		return nil, err
	}
	r.log.Info("certificate renewed", "node", p.Node(), "serial", p.Serial)
	return &controlpb.RenewResponse{Chain: chain, MgmtAddresses: cfg.Value.MgmtAddresses}, nil
}

// check refuses who is no longer part of the mesh, and a certificate that ended
// longer ago than the operator allows now.
func (r *renewal) check(ctx context.Context, p identity.Peer, grace time.Duration) error {
	if now := r.now(); now.After(p.Leaf.NotAfter.Add(grace)) {
		return mesh.WithHint(fmt.Errorf("mgmt: renew %s: the certificate ended at %s: %w", p.Node(), p.Leaf.NotAfter.UTC().Format(time.RFC3339), mesh.ErrDenied),
			"join again with a new token")
	}
	_, err := r.store.View(ctx, func(tx *store.Tx) error {
		if _, err := welcome(tx, r.store, p.Identity); err != nil {
			return err
		}
		return r.noPod(tx, p.Identity)
	})
	return err
}

// noPod refuses an entry that is a pod: whoever has its certificate must also be
// that pod still, which only its cluster knows.
func (r *renewal) noPod(tx *store.Tx, id mesh.Identity) error {
	if id.Role != mesh.RoleEntry {
		return nil
	}
	e, err := store.Get(tx, r.store.Entries, mesh.EntryID(id.ID))
	if err != nil || e.Pod.IsZero() {
		return err
	}
	return mesh.WithHint(fmt.Errorf("mgmt: renew %s: it is a pod, whose certificate is renewed for a token of its service account: %w", id.Node(), mesh.ErrDenied),
		"set kubernetes.cluster in the entry's configuration, as `meshctl admin entry deploy` does")
}

// restoreSlack is how far the clocks of two servers may be apart when it is said
// which came first, a certificate or a backup.
const restoreSlack = time.Minute

// adopt puts a core's or an entry's certificate on record that was issued between
// the making of a backup and its restore: the state does not know it, and its
// holder, who was part of the mesh before, needs no token for that. Servers and
// administrators are believed only when their certificate is on record already.
func (r *renewal) adopt(ctx context.Context, p identity.Peer, restored mesh.Restored) error {
	if restored.IsZero() || p.Role != mesh.RoleCore && p.Role != mesh.RoleEntry ||
		p.Issued.Before(restored.Backup.Add(-restoreSlack)) || p.Issued.After(restored.At) {
		return nil
	}
	if _, err := r.store.GetCert(ctx, p.Serial); !errors.Is(err, mesh.ErrNotFound) {
		return err
	}
	key, err := mesh.KeyHash(p.Leaf.PublicKey)
	if err != nil {
		return err
	}
	r.log.Info("certificate from before the restore put on record", "node", p.Node(), "serial", p.Serial)
	return r.store.PutCert(ctx, mesh.CertRecord{
		Serial: p.Serial, Node: p.Node(), KeyHash: key, Issuer: string(mesh.IssuerOf(p.Leaf)),
		Issued: p.Issued.UTC(), NotBefore: p.Leaf.NotBefore.UTC(), NotAfter: p.Leaf.NotAfter.UTC(),
	})
}
