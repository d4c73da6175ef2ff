package nodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// known says whether the mesh has this node and does not refuse it. A node that
// joined a moment ago is not in the mirrors yet, so the store is asked then; a
// node the mirrors know is let in also while the store is away.
func (s *Service) known(ctx context.Context, p identity.Peer) error {
	revoked, banned, err := s.lookUp(ctx, p)
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return mesh.WithHint(fmt.Errorf("nodes: connect: %s is not of this mesh any more: %w", p.Node(), mesh.ErrDenied),
			"join again with a new token")
	case err != nil:
		return err
	case banned:
		return mesh.WithHint(fmt.Errorf("nodes: connect: %s is banned: %w", p.Node(), mesh.ErrDenied),
			"the operators of the mesh do not want it back: stop it")
	case revoked:
		return mesh.WithHint(fmt.Errorf("nodes: connect: %s is revoked: %w", p.Node(), mesh.ErrDenied),
			"join again with a new token, if the operators of the mesh give one")
	}
	return s.Revocations.Check(p)
}

func (s *Service) lookUp(ctx context.Context, p identity.Peer) (revoked, banned bool, err error) {
	if p.Role == mesh.RoleCore {
		id := mesh.CoreID(p.ID)
		if c, ok := s.view.cores.Get(id); ok {
			return c.Revoked, c.Banned, nil
		}
		c, err := s.Store.Cores.Get(ctx, id)
		return c.Value.Revoked, c.Value.Banned, err
	}
	id := mesh.EntryID(p.ID)
	if e, ok := s.view.entries.Get(id); ok {
		return e.Revoked, e.Banned, nil
	}
	e, err := s.Store.Entries.Get(ctx, id)
	return e.Value.Revoked, e.Value.Banned, err
}
