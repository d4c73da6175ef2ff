package mgmt

import (
	"context"
	"fmt"
	"log/slog"
	"time"

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
	often *limiter[string] // by node
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
	if !r.often.allowEvery(p.Node(), life/renewals, r.now()) {
		return nil, rpcstatus.To(fmt.Errorf("mgmt: renew %s: it did so too often: %w", p.Node(), mesh.ErrUnavailable))
	}
	if err := r.check(ctx, p, time.Duration(cfg.Value.RenewGrace)); err != nil {
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
		_, err := welcome(tx, r.store, p.Identity)
		return err
	})
	return err
}
