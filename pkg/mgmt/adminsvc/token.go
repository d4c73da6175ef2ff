package adminsvc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	defaultTokenLife = 24 * time.Hour
	maxTokenLife     = 30 * 24 * time.Hour
	minTokenLife     = time.Second
	botTokenLife     = time.Hour
	maxBotTokenLife  = 24 * time.Hour
	tokenSecret      = 32 // bytes
)

func (s *Service) tokenView(t mesh.Token) admin.TokenView {
	return admin.TokenView{
		ID: t.ID, State: t.State(s.now()), Role: t.Role, Name: t.Name, Member: t.Member, Cell: t.Cell,
		Grant: t.Grant, Created: t.Created, By: t.By, Expires: t.Expires, Used: t.Used,
	}
}

func (s *Service) tokenList(ctx context.Context, req admin.Page) (admin.List[admin.TokenView], error) {
	return list(ctx, req, s.Store.Tokens.Page, func(_ string, t mesh.Token) (admin.TokenView, bool) { return s.tokenView(t), true })
}

func (s *Service) tokenGet(ctx context.Context, req admin.Ref) (admin.TokenView, error) {
	t, err := s.Store.Tokens.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.TokenView{}, err
	}
	return s.tokenView(t), nil
}

func (s *Service) tokenCreate(ctx context.Context, req admin.TokenCreateRequest) (admin.TokenCreated, error) {
	if admin.CallerFrom(ctx).Bot != nil {
		if err := checkBotToken(&req); err != nil {
			return admin.TokenCreated{}, err
		}
	}
	if err := checkToken(admin.CallerFrom(ctx).Role, &req); err != nil {
		return admin.TokenCreated{}, err
	}
	cfg, err := s.configGet(ctx, admin.None{})
	if err != nil {
		return admin.TokenCreated{}, err
	}
	if len(cfg.MgmtAddresses) == 0 {
		return admin.TokenCreated{}, mesh.WithHint(fmt.Errorf("admin: create token: no address of a management server is configured: %w", mesh.ErrConflict),
			"meshctl admin config set mgmtAddresses=HOST:PORT")
	}
	now := s.now()
	secret := mesh.NewSecret(tokenSecret)
	t := mesh.Token{
		ID: mesh.NewTokenID(), Hash: mesh.HashTokenSecret(secret), Role: req.Role, Name: req.Name, Grant: req.Grant,
		Created: now, By: string(admin.CallerFrom(ctx).Actor), Expires: now.Add(time.Duration(req.Life)),
	}
	err = s.change(ctx, "token.create", func(tx *store.Tx) error {
		if err := s.tokenObjects(tx, &t, req); err != nil {
			return err
		}
		return store.Create(tx, s.Store.Tokens, t.ID, t)
	})
	if err != nil {
		return admin.TokenCreated{}, err
	}
	join := mesh.JoinToken{Addresses: cfg.MgmtAddresses, RootHash: s.RootHash, ID: t.ID, Secret: secret}
	return admin.TokenCreated{TokenView: s.tokenView(t), Token: join.Encode().Reveal()}, nil
}

// checkBotToken: over the bot come cores and entries alone, and not for long.
func checkBotToken(req *admin.TokenCreateRequest) error {
	if req.Life == 0 {
		req.Life = mesh.Duration(botTokenLife)
	}
	switch {
	case req.Role != mesh.RoleCore && req.Role != mesh.RoleEntry:
		return mesh.WithHint(fmt.Errorf("admin: create token: the bot lets in cores and entries alone: %w", mesh.ErrDenied), "meshctl admin token create")
	case time.Duration(req.Life) > maxBotTokenLife:
		return fmt.Errorf("admin: create token: life %v: want at most a day over the bot: %w", req.Life, mesh.ErrInvalid)
	}
	return nil
}

// checkToken checks what can be checked without the store and fills in the life.
func checkToken(caller mesh.AdminRole, req *admin.TokenCreateRequest) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("admin: create token: "+format+": %w", append(args, mesh.ErrInvalid)...)
	}
	if _, err := mesh.ParseRole(string(req.Role)); err != nil {
		return err
	}
	if req.Life == 0 {
		req.Life = mesh.Duration(defaultTokenLife)
	}
	if life := time.Duration(req.Life); life < minTokenLife || life > maxTokenLife {
		return bad("life %v: want 1s to 720h", life)
	}
	if req.Name != "" {
		if err := mesh.CheckName(req.Name); err != nil {
			return err
		}
	}
	switch {
	case req.Role == mesh.RoleMgmt:
		return mesh.WithHint(bad("a management server is let in with the root passphrase"), "meshctl admin mgmt add NAME")
	case req.Role != mesh.RoleCore && (req.Member != "" || req.Cell != ""):
		return bad("member and cell belong to tokens of cores")
	case req.Role == mesh.RoleCore && (req.Member == "" || req.Cell == ""):
		return mesh.WithHint(bad("a core needs an owner and a cell"), "give --member and --cell")
	case req.Role != mesh.RoleAdmin && req.Grant != "":
		return bad("a grant belongs to tokens of administrators")
	case req.Role == mesh.RoleAdmin && req.Grant.Rank() == 0:
		return mesh.WithHint(bad("grant %q: want owner, operator or auditor", mesh.Quotable(string(req.Grant))), "give --grant")
	case req.Role == mesh.RoleAdmin && !caller.Includes(mesh.AdminOwner):
		return mesh.WithHint(fmt.Errorf("admin: create token: only an owner may invite administrators: %w", mesh.ErrDenied), "ask an owner")
	}
	return nil
}

// tokenObjects resolves what a token names and refuses a name that is taken:
// the node that came with it could not join.
func (s *Service) tokenObjects(tx *store.Tx, t *mesh.Token, req admin.TokenCreateRequest) error {
	switch req.Role {
	case mesh.RoleCore:
		m, err := store.Lookup(tx, s.Store.Members, req.Member)
		if err != nil {
			return err
		}
		c, err := store.Lookup(tx, s.Store.Cells, req.Cell)
		switch {
		case err != nil:
			return err
		case m.State == mesh.MemberArchived:
			return fmt.Errorf("admin: create token: member %s is archived: %w", m.Name, mesh.ErrConflict)
		case c.State == mesh.CellRetired:
			return fmt.Errorf("admin: create token: cell %s is retired: %w", c.Name, mesh.ErrConflict)
		}
		if err := s.mayBring(tx, m); err != nil {
			return err
		}
		t.Member, t.Cell = m.ID, c.ID
		return free(tx, s.Store.Cores, req.Name)
	case mesh.RoleEntry:
		return free(tx, s.Store.Entries, req.Name)
	case mesh.RoleAdmin:
		return free(tx, s.Store.Admins, req.Name)
	case mesh.RoleMgmt:
	}
	return nil
}

func free[K ~string, V any](tx *store.Tx, c *store.Collection[K, V], name string) error {
	if name == "" {
		return nil
	}
	_, err := store.Lookup(tx, c, name)
	switch {
	case err == nil:
		return mesh.WithHint(fmt.Errorf("admin: create token: the name %q is taken: %w", name, mesh.ErrExists), "choose another --name")
	case errors.Is(err, mesh.ErrNotFound):
		return nil
	}
	return err
}

func (s *Service) tokenRevoke(ctx context.Context, req admin.Ref) (admin.TokenView, error) {
	var out mesh.Token
	err := s.change(ctx, "token.revoke", func(tx *store.Tx) error {
		t, err := store.Lookup(tx, s.Store.Tokens, req.Ref)
		if err != nil {
			return err
		}
		if t.Used != nil {
			role, id, _ := strings.Cut(t.Used.Node, "/")
			if mesh.Role(role) == mesh.RoleAdmin {
				role = "administrator"
			}
			return mesh.WithHint(fmt.Errorf("admin: token %s was used by %s: %w", t.ID, t.Used.Node, mesh.ErrConflict),
				"revoke what joined with it: meshctl admin "+role+" revoke "+id)
		}
		return store.Update(tx, s.Store.Tokens, t.ID, func(t *mesh.Token) error {
			t.Revoked = true
			out = *t
			return nil
		})
	})
	return s.tokenView(out), err
}
