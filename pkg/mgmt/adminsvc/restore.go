package adminsvc

import (
	"context"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// cancelBatch is how many tokens one change cancels.
const cancelBatch = 30

// Restored makes state that comes from a backup that of a mesh of one server: the
// servers of before are taken out, and with them in one change goes whatever also
// does.
func (s *Service) Restored(ctx context.Context, lost []mesh.ServerID, reason string, also func(*store.Tx) error) error {
	defer s.Store.Sealing()()
	return s.change(ctx, "mesh.restore", func(tx *store.Tx) error {
		for _, id := range lost {
			if _, err := s.takeOut(ctx, tx, id, admin.RevokeRequest{Reason: reason}); err != nil {
				return err
			}
		}
		return also(tx)
	})
}

// CancelTokens revokes every join token that could still be used, and returns how
// many: who has been given one in the time that a backup does not know of, or by
// whom a server was taken, is not known.
func (s *Service) CancelTokens(ctx context.Context) (int, error) {
	all, _, err := s.Store.Tokens.List(ctx)
	if err != nil {
		return 0, err
	}
	now := s.now()
	maps.DeleteFunc(all, func(_ mesh.TokenID, t mesh.Token) bool { return t.State(now) != mesh.TokenUnused })
	open := slices.Sorted(maps.Keys(all))
	for n := 0; n < len(open); n += cancelBatch {
		err := s.change(ctx, "token.revoke", func(tx *store.Tx) error {
			for _, id := range open[n:min(n+cancelBatch, len(open))] {
				err := store.Update(tx, s.Store.Tokens, id, func(t *mesh.Token) error {
					t.Revoked = true
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return len(open), nil
}
