package adminsvc

import (
	"context"
	"fmt"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (s *Service) adminList(ctx context.Context, req admin.Page) (admin.List[mesh.Administrator], error) {
	return list(ctx, req, s.Store.Admins.Page, func(_ string, a mesh.Administrator) (mesh.Administrator, bool) { return a, true })
}

func (s *Service) adminGet(ctx context.Context, req admin.Ref) (mesh.Administrator, error) {
	return s.Store.Admins.Lookup(ctx, req.Ref)
}

func (s *Service) adminSet(ctx context.Context, req admin.AdminSetRequest) (mesh.Administrator, error) {
	return s.adminChange(ctx, "admin.set", req.Ref, func(_ *store.Tx, a *mesh.Administrator) error {
		if req.Name != nil {
			if err := mesh.CheckName(*req.Name); err != nil {
				return err
			}
			a.Name = *req.Name
		}
		if req.Suspended != nil {
			if a.Revoked {
				return fmt.Errorf("admin: administrator %s is revoked, which is final: %w", a.Name, mesh.ErrConflict)
			}
			a.Suspended = *req.Suspended
		}
		if req.Role == nil {
			return nil
		}
		if req.Role.Rank() == 0 {
			return fmt.Errorf("admin: role %q: want owner, operator or auditor: %w", mesh.Quotable(string(*req.Role)), mesh.ErrInvalid)
		}
		if a.Revoked {
			return fmt.Errorf("admin: administrator %s is revoked, which is final: %w", a.Name, mesh.ErrConflict)
		}
		a.Role = *req.Role
		return nil
	})
}

func (s *Service) adminRevoke(ctx context.Context, req admin.RevokeRequest) (mesh.Administrator, error) {
	return s.adminChange(ctx, revoking("admin", req), req.Ref, func(tx *store.Tx, a *mesh.Administrator) error {
		a.Revoked, a.Banned = true, a.Banned || req.Ban
		if err := s.revokeNode(ctx, tx, nodeName(mesh.RoleAdmin, a.ID), req); err != nil || !req.Ban {
			return err
		}
		return s.banTokens(tx, named(mesh.RoleAdmin, a.Name))
	})
}

func (s *Service) adminChange(ctx context.Context, action, ref string, fn func(*store.Tx, *mesh.Administrator) error) (mesh.Administrator, error) {
	var out mesh.Administrator
	err := s.change(ctx, action, func(tx *store.Tx) error {
		a, err := store.Lookup(tx, s.Store.Admins, ref)
		if err != nil {
			return err
		}
		return store.Update(tx, s.Store.Admins, a.ID, func(a *mesh.Administrator) error {
			err := fn(tx, a)
			out = *a
			return err
		})
	})
	return out, err
}
