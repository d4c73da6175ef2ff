package adminsvc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (s *Service) coreList(ctx context.Context, req admin.Page) (admin.List[admin.CoreView], error) {
	show, err := s.coreViewer(ctx)
	if err != nil {
		return admin.List[admin.CoreView]{}, err
	}
	return list(ctx, req, s.Store.Cores.Page, func(_ string, c mesh.Core) (admin.CoreView, bool) { return show(c), true })
}

func (s *Service) coreGet(ctx context.Context, req admin.Ref) (admin.CoreView, error) {
	c, err := s.Store.Cores.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.CoreView{}, err
	}
	return s.coreView(ctx, c)
}

func (s *Service) coreView(ctx context.Context, c mesh.Core) (admin.CoreView, error) {
	show, err := s.coreViewer(ctx)
	if err != nil {
		return admin.CoreView{}, err
	}
	return show(c), nil
}

// coreViewer reads once what the views of all cores need.
func (s *Service) coreViewer(ctx context.Context) (func(mesh.Core) admin.CoreView, error) {
	members, _, err := s.Store.Members.List(ctx)
	if err != nil {
		return nil, err
	}
	cells, _, err := s.Store.Cells.List(ctx)
	if err != nil {
		return nil, err
	}
	known, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	traffic, err := s.Store.Traffic(ctx)
	if err != nil {
		return nil, err
	}
	return func(c mesh.Core) admin.CoreView {
		node := nodeName(mesh.RoleCore, c.ID)
		return admin.CoreView{
			Core: c, MemberName: members[c.Member].Name, CellName: cells[c.Cell].Name,
			Status: known.status(node), CertEnds: known.ends[node], Used: traffic.Cores[c.ID],
		}
	}, nil
}

func nodeName[K ~string](r mesh.Role, id K) string { return string(r) + "/" + string(id) }

// nodes is what is known of nodes apart from their specification.
type nodes struct {
	statuses map[string]mesh.NodeStatus
	ends     map[string]time.Time // end of the last certificate, by node
}

func (s *Service) nodes(ctx context.Context) (nodes, error) {
	n := nodes{ends: map[string]time.Time{}}
	var err error
	if n.statuses, _, err = s.Store.Status.List(ctx); err != nil {
		return n, err
	}
	certs, _, err := s.Store.Certs.List(ctx)
	for _, c := range certs {
		if c.NotAfter.After(n.ends[c.Node]) {
			n.ends[c.Node] = c.NotAfter
		}
	}
	return n, err
}

func (n nodes) status(node string) *mesh.NodeStatus {
	if st, ok := n.statuses[node]; ok {
		return &st
	}
	return nil
}

func (s *Service) coreSet(ctx context.Context, req admin.CoreSetRequest) (admin.CoreView, error) {
	var out mesh.Core
	err := s.change(ctx, "core.set", func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Cores, req.Ref)
		if err != nil {
			return err
		}
		err = store.Update(tx, s.Store.Cores, c.ID, func(c *mesh.Core) error {
			err := setCore(c, req)
			out = *c
			return err
		})
		if err != nil || req.Drain == nil {
			return err
		}
		return s.syncTarget(tx, c.ID)
	})
	if err != nil {
		return admin.CoreView{}, err
	}
	return s.coreView(ctx, out)
}

func setCore(c *mesh.Core, req admin.CoreSetRequest) error {
	if req.Name != nil {
		if err := mesh.CheckName(*req.Name); err != nil {
			return err
		}
		c.Name = *req.Name
	}
	if req.Drain == nil || *req.Drain == c.Drain {
		return nil
	}
	if c.Revoked {
		return fmt.Errorf("admin: core %s is revoked, which is final: %w", c.Name, mesh.ErrConflict)
	}
	setDrain(c, *req.Drain)
	return nil
}

// setDrain also moves the state of a core that is up, so that entries hear of a
// drain in the same transaction; node control would do the same a little later.
func setDrain(c *mesh.Core, drain bool) {
	if c.Drain == drain {
		return
	}
	c.Drain = drain
	if c.State == mesh.CoreReady || c.State == mesh.CoreDraining {
		up := mesh.Liveness{Connected: true, Dialled: true}
		c.State, c.Reason = c.Next(up, time.Time{}, 0)
	}
}

func (s *Service) coreRevoke(ctx context.Context, req admin.RevokeRequest) (admin.CoreView, error) {
	var out mesh.Core
	err := s.change(ctx, revoking("core", req), func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Cores, req.Ref)
		if err != nil {
			return err
		}
		err = store.Update(tx, s.Store.Cores, c.ID, func(c *mesh.Core) error {
			c.Revoked, c.State, c.Reason = true, mesh.CoreRevoked, req.Reason
			c.Banned = c.Banned || req.Ban
			out = *c
			return nil
		})
		if err != nil {
			return err
		}
		if err := s.revokeNode(ctx, tx, nodeName(mesh.RoleCore, c.ID), req); err != nil {
			return err
		}
		if req.Ban {
			if err := s.banTokens(tx, ofOwner(c.Member)); err != nil {
				return err
			}
		}
		if err := s.syncTarget(tx, c.ID); err != nil {
			return err
		}
		return s.syncCell(tx, c.Cell)
	})
	if err != nil {
		return admin.CoreView{}, err
	}
	return s.coreView(ctx, out)
}

func (s *Service) coreRemove(ctx context.Context, req admin.Ref) (admin.None, error) {
	return admin.None{}, s.change(ctx, "core.remove", func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Cores, req.Ref)
		if err != nil {
			return err
		}
		if !c.Revoked {
			return mesh.WithHint(fmt.Errorf("admin: core %s still holds a certificate: %w", c.Name, mesh.ErrConflict),
				"revoke it first: meshctl admin core revoke "+string(c.ID))
		}
		devices, err := store.List(tx, s.Store.Devices)
		if err != nil {
			return err
		}
		for _, d := range devices {
			if d.Assigned.Core == c.ID && d.State != mesh.DeviceRevoked {
				return mesh.WithHint(fmt.Errorf("admin: device %s is assigned to core %s: %w", d.Name, c.Name, mesh.ErrConflict),
					"move it first: meshctl admin device set "+string(d.ID)+" --cell "+string(c.Cell))
			}
		}
		if err := drop(tx, s.Store.Targets, string(c.ID)); err != nil {
			return err
		}
		if err := drop(tx, s.Store.Status, nodeName(mesh.RoleCore, c.ID)); err != nil {
			return err
		}
		return store.Delete(tx, s.Store.Cores, c.ID)
	})
}

// drop deletes what may be absent.
func drop[K ~string, V any](tx *store.Tx, c *store.Collection[K, V], id K) error {
	return ignoreAbsent(store.Delete(tx, c, id))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	return err
}
