package adminsvc

import (
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// A node or administrator that is revoked may join again with a new token, as
// another. One that is banned may not: the tokens that would bring it back are
// revoked in the same transaction, and none can be made while its record is
// there. What would bring it back is, for a core, a token for its owner; for
// others, one with its name.

// banTokens revokes the unused tokens that bring back what was banned.
func (s *Service) banTokens(tx *store.Tx, brings func(mesh.Token) bool) error {
	tokens, err := store.List(tx, s.Store.Tokens)
	if err != nil {
		return err
	}
	for id, t := range tokens {
		if t.State(s.now()) != mesh.TokenUnused || !brings(t) {
			continue
		}
		if err := store.Update(tx, s.Store.Tokens, id, func(t *mesh.Token) error { t.Revoked = true; return nil }); err != nil {
			return err
		}
	}
	return nil
}

// named are the tokens of a role with that label.
func named(r mesh.Role, label string) func(mesh.Token) bool {
	return func(t mesh.Token) bool { return t.Role == r && t.Name == label }
}

// ofOwner are the tokens for cores of that member.
func ofOwner(m mesh.MemberID) func(mesh.Token) bool {
	return func(t mesh.Token) bool { return t.Role == mesh.RoleCore && t.Member == m }
}

// mayBring refuses a token for a core of a member who has one that is banned.
func (s *Service) mayBring(tx *store.Tx, m mesh.Member) error {
	cores, err := store.List(tx, s.Store.Cores)
	if err != nil {
		return err
	}
	for _, c := range cores {
		if c.Member == m.ID && c.Banned {
			return mesh.WithHint(fmt.Errorf("admin: create token: core %s of member %s is banned: %w", c.Name, m.Name, mesh.ErrConflict),
				"to lift the ban remove its record: meshctl admin core remove "+string(c.ID))
		}
	}
	return nil
}
