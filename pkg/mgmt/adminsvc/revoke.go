package adminsvc

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const maxReason = 500 // bytes

// revokeNode refuses everything that was ever issued to node: it is final, and
// who joins again is another node. The record is part of the caller's transaction
// and ends with the last certificate.
func (s *Service) revokeNode(ctx context.Context, tx *store.Tx, node string, req admin.RevokeRequest) error {
	return s.revokeFor(ctx, tx, node, req, 0)
}

// revokePod refuses a pod for as long as it can be there, which no certificate says:
// it would come back as the same node, once its record was removed.
func (s *Service) revokePod(ctx context.Context, tx *store.Tx, node string, req admin.RevokeRequest) error {
	return s.revokeFor(ctx, tx, node, req, mesh.Remembered)
}

func (s *Service) revokeFor(ctx context.Context, tx *store.Tx, node string, req admin.RevokeRequest, least time.Duration) error {
	now := s.now()
	until, err := s.lastEnd(ctx, node, now)
	if err != nil {
		return err
	}
	if end := now.Add(least); end.After(until) {
		until = end
	}
	// Not before now: a certificate may be on its way, and a server whose clock
	// is ahead of this one's dates what it has issued later than this moment.
	return s.addRevocation(ctx, tx, mesh.Revocation{Node: node, IssuedBefore: until, MayRejoin: !req.Ban, Reason: req.Reason, At: now, Until: until})
}

// remember has nodes keep that an object without a certificate, kind/id, is
// refused for good. They do nothing with it but to hand it back: so a restore from
// a backup that is older does not bring the object back. It says no reason, since
// whoever holds an entry or a core could read it.
func (s *Service) remember(ctx context.Context, tx *store.Tx, object string) error {
	now := s.now()
	return s.addRevocation(ctx, tx, mesh.Revocation{Node: object, IssuedBefore: now, At: now, Until: now.Add(mesh.Remembered)})
}

// revoking is the action in audit.
func revoking(kind string, req admin.RevokeRequest) string {
	if req.Ban {
		return kind + ".ban"
	}
	return kind + ".revoke"
}

// lastEnd is when the last certificate of node ends. A certificate that is
// being signed at this moment is covered by a full life from now.
func (s *Service) lastEnd(ctx context.Context, node string, now time.Time) (time.Time, error) {
	cfg, err := s.configGet(ctx, admin.None{})
	if err != nil {
		return time.Time{}, err
	}
	role, _, _ := cutNode(node)
	end := now.Add(cfg.CertLife.Of(role) + mesh.Backdate)
	certs, _, err := s.Store.Certs.List(ctx)
	for _, c := range certs {
		if c.Node == node && c.NotAfter.After(end) {
			end = c.NotAfter
		}
	}
	return end, err
}

// addRevocation signs r and makes it part of the transaction.
func (s *Service) addRevocation(ctx context.Context, tx *store.Tx, r mesh.Revocation) error {
	if len(r.Reason) > maxReason {
		return fmt.Errorf("admin: reason of %d bytes: want at most %d: %w", len(r.Reason), maxReason, mesh.ErrInvalid)
	}
	r.ID = store.NewTimeID(r.At)
	r.By = string(admin.CallerFrom(ctx).Actor)
	signed, err := s.CA.SignRevocation(r)
	if err != nil {
		return err
	}
	return store.Create(tx, s.Store.Revocations, r.ID, signed)
}

// sync brings a device's routes up to date as part of the transaction.
func (s *Service) sync(tx *store.Tx, id mesh.DeviceID) error {
	return store.SyncRoutes(tx, id, s.now())
}

// syncMember and syncCell do so for many devices, as many as fit; the reconciler
// finds the others by their difference.
func (s *Service) syncMember(tx *store.Tx, id mesh.MemberID) error {
	_, err := store.SyncMember(tx, id, s.now())
	return err
}

func (s *Service) syncCell(tx *store.Tx, id mesh.CellID) error {
	_, err := store.SyncCell(tx, id, s.now())
	return err
}

// syncTarget tells entries a core's state as part of the transaction.
func (s *Service) syncTarget(tx *store.Tx, id mesh.CoreID) error {
	c, err := store.Get(tx, s.Store.Cores, id)
	if err != nil {
		return err
	}
	err = store.Update(tx, s.Store.Targets, string(id), func(t *mesh.Target) error {
		t.State = c.State
		return nil
	})
	return ignoreAbsent(err)
}
