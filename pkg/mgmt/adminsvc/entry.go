package adminsvc

import (
	"context"
	"fmt"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (s *Service) entryList(ctx context.Context, req admin.Page) (admin.List[admin.EntryView], error) {
	known, err := s.nodes(ctx)
	if err != nil {
		return admin.List[admin.EntryView]{}, err
	}
	return list(ctx, req, s.Store.Entries.Page, func(_ string, e mesh.Entry) (admin.EntryView, bool) {
		return known.entry(e), true
	})
}

func (n nodes) entry(e mesh.Entry) admin.EntryView {
	node := nodeName(mesh.RoleEntry, e.ID)
	return admin.EntryView{Entry: e, Status: n.status(node), CertEnds: n.ends[node]}
}

func (s *Service) entryGet(ctx context.Context, req admin.Ref) (admin.EntryView, error) {
	e, err := s.Store.Entries.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.EntryView{}, err
	}
	return s.entryView(ctx, e)
}

func (s *Service) entryView(ctx context.Context, e mesh.Entry) (admin.EntryView, error) {
	known, err := s.nodes(ctx)
	return known.entry(e), err
}

func (s *Service) entryRename(ctx context.Context, req admin.RenameRequest) (admin.EntryView, error) {
	if err := mesh.CheckName(req.Name); err != nil {
		return admin.EntryView{}, err
	}
	return s.entryChange(ctx, "entry.rename", req.Ref, func(_ *store.Tx, e *mesh.Entry) error {
		e.Name = req.Name
		return nil
	})
}

func (s *Service) entryRevoke(ctx context.Context, req admin.RevokeRequest) (admin.EntryView, error) {
	return s.entryChange(ctx, revoking("entry", req), req.Ref, func(tx *store.Tx, e *mesh.Entry) error {
		e.Revoked, e.Banned = true, e.Banned || req.Ban
		revoke := s.revokeNode
		if !e.Pod.IsZero() {
			revoke = s.revokePod
		}
		if err := revoke(ctx, tx, nodeName(mesh.RoleEntry, e.ID), req); err != nil || !req.Ban {
			return err
		}
		return s.banTokens(tx, named(mesh.RoleEntry, e.Name))
	})
}

func (s *Service) entryChange(ctx context.Context, action, ref string, fn func(*store.Tx, *mesh.Entry) error) (admin.EntryView, error) {
	var out mesh.Entry
	err := s.change(ctx, action, func(tx *store.Tx) error {
		e, err := store.Lookup(tx, s.Store.Entries, ref)
		if err != nil {
			return err
		}
		return store.Update(tx, s.Store.Entries, e.ID, func(e *mesh.Entry) error {
			err := fn(tx, e)
			out = *e
			return err
		})
	})
	if err != nil {
		return admin.EntryView{}, err
	}
	return s.entryView(ctx, out)
}

func (s *Service) entryRemove(ctx context.Context, req admin.Ref) (admin.None, error) {
	return admin.None{}, s.change(ctx, "entry.remove", func(tx *store.Tx) error {
		e, err := store.Lookup(tx, s.Store.Entries, req.Ref)
		if err != nil {
			return err
		}
		if !e.Revoked {
			return mesh.WithHint(fmt.Errorf("admin: entry %s still holds a certificate: %w", e.Name, mesh.ErrConflict),
				"revoke it first: meshctl admin entry revoke "+string(e.ID))
		}
		if err := drop(tx, s.Store.Status, nodeName(mesh.RoleEntry, e.ID)); err != nil {
			return err
		}
		return store.Delete(tx, s.Store.Entries, e.ID)
	})
}
