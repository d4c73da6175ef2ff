package mgmt

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// newcomer is who presents a token.
type newcomer struct {
	key     string // hash of its public key
	from    netip.Addr
	version string
}

// admitted is what it became.
type admitted struct {
	id    mesh.Identity
	name  string
	again bool // it was admitted before
}

func (e *enrollment) newIdentity(r mesh.Role) (mesh.Identity, error) {
	id := mesh.Identity{Mesh: e.mesh, Role: r}
	switch r {
	case mesh.RoleCore:
		id.ID = string(mesh.NewCoreID())
	case mesh.RoleEntry:
		id.ID = string(mesh.NewEntryID())
	case mesh.RoleAdmin:
		id.ID = string(mesh.NewAdminID())
	case mesh.RoleMgmt:
		id.ID = string(mesh.NewServerID())
	default:
		return mesh.Identity{}, fmt.Errorf("mgmt: enroll: the join token is for a %s, which this version cannot admit: %w", r, mesh.ErrDenied)
	}
	return id, nil
}

// create makes the object that the token is for, and returns its label.
func (e *enrollment) create(tx *store.Tx, t mesh.Token, id mesh.Identity, who newcomer, now time.Time) (string, error) {
	version := mesh.Quotable(who.version)
	switch id.Role {
	case mesh.RoleCore:
		if err := e.checkHome(tx, t); err != nil {
			return "", err
		}
		name, err := free(tx, e.store.Cores, t.Name, id)
		if err != nil {
			return "", err
		}
		return name, store.Create(tx, e.store.Cores, mesh.CoreID(id.ID), mesh.Core{
			ID: mesh.CoreID(id.ID), Name: name, Member: t.Member, Cell: t.Cell,
			State: mesh.CoreJoined, Reason: "it has not phoned home yet", Version: version, Joined: now,
		})
	case mesh.RoleEntry:
		name, err := free(tx, e.store.Entries, t.Name, id)
		if err != nil {
			return "", err
		}
		return name, store.Create(tx, e.store.Entries, mesh.EntryID(id.ID), mesh.Entry{ID: mesh.EntryID(id.ID), Name: name, Version: version, Joined: now})
	case mesh.RoleAdmin:
		name, err := free(tx, e.store.Admins, t.Name, id)
		if err != nil {
			return "", err
		}
		return name, store.Create(tx, e.store.Admins, mesh.AdminID(id.ID), mesh.Administrator{ID: mesh.AdminID(id.ID), Name: name, Role: t.Grant, Created: now})
	case mesh.RoleMgmt:
		name, err := free(tx, e.store.Servers, t.Name, id)
		if err != nil {
			return "", err
		}
		return name, store.Create(tx, e.store.Servers, mesh.ServerID(id.ID), mesh.Server{ID: mesh.ServerID(id.ID), Name: name, State: mesh.ServerJoining, Joined: now})
	}
	return "", fmt.Errorf("mgmt: enroll: no object for a %s: %w", id.Role, mesh.ErrDenied)
}

// checkHome refuses a core whose member or cell is gone since the token was made.
func (e *enrollment) checkHome(tx *store.Tx, t mesh.Token) error {
	const hint = "make a new token for a member and a cell that exist: meshctl admin token create"
	m, err := store.Get(tx, e.store.Members, t.Member)
	if err != nil && mesh.Kind(err) != mesh.ErrNotFound {
		return err
	}
	if err != nil || m.State == mesh.MemberArchived {
		return mesh.WithHint(fmt.Errorf("mgmt: enroll: the member of the token is gone: %w", mesh.ErrConflict), hint)
	}
	c, err := store.Get(tx, e.store.Cells, t.Cell)
	if err != nil && mesh.Kind(err) != mesh.ErrNotFound {
		return err
	}
	if err != nil || c.State == mesh.CellRetired {
		return mesh.WithHint(fmt.Errorf("mgmt: enroll: the cell of the token is gone: %w", mesh.ErrConflict), hint)
	}
	return nil
}

// free is the wanted label, or one like it when that is taken: joining does not
// fail because of a label, which can be changed later.
func free[K ~string, V any](tx *store.Tx, c *store.Collection[K, V], want string, id mesh.Identity) (string, error) {
	short := id.ID[len(id.ID)-6:]
	if want == "" {
		return string(id.Role) + " " + short, nil
	}
	_, err := store.Lookup(tx, c, want)
	switch {
	case mesh.Kind(err) == mesh.ErrNotFound:
		return want, nil
	case err != nil:
		return "", err
	}
	if len(want)+len(short) >= mesh.MaxNameLen {
		want = strings.ToValidUTF8(want[:mesh.MaxNameLen-len(short)-1], "")
	}
	return strings.TrimSpace(want) + " " + short, nil
}

// again is what the token's key became earlier. It must still be welcome.
func (e *enrollment) again(tx *store.Tx, t mesh.Token) (admitted, error) {
	role, id, _ := strings.Cut(t.Used.Node, "/")
	ident, err := mesh.ParseIdentity(mesh.Identity{Mesh: e.mesh, Role: mesh.Role(role), ID: id}.String())
	if err != nil {
		return admitted{}, err
	}
	name, err := welcome(tx, e.store, ident)
	return admitted{id: ident, name: name, again: true}, err
}

// newRequestID names one request, in the log and the audit record.
func newRequestID() string { return "req-" + strings.ToLower(rand.Text()[:16]) }

// welcome returns the node's label, or ErrDenied when it was removed or revoked.
func welcome(tx *store.Tx, s *store.Store, id mesh.Identity) (string, error) {
	var name string
	var revoked bool
	var err error
	switch id.Role {
	case mesh.RoleCore:
		var c mesh.Core
		c, err = store.Get(tx, s.Cores, mesh.CoreID(id.ID))
		name, revoked = c.Name, c.Revoked
	case mesh.RoleEntry:
		var x mesh.Entry
		x, err = store.Get(tx, s.Entries, mesh.EntryID(id.ID))
		name, revoked = x.Name, x.Revoked
	case mesh.RoleAdmin:
		var a mesh.Administrator
		a, err = store.Get(tx, s.Admins, mesh.AdminID(id.ID))
		name, revoked = a.Name, a.Revoked
	case mesh.RoleMgmt:
		var v mesh.Server
		v, err = store.Get(tx, s.Servers, mesh.ServerID(id.ID))
		name, revoked = v.Name, v.State == mesh.ServerRemoved
	}
	switch {
	case mesh.Kind(err) == mesh.ErrNotFound:
		err = fmt.Errorf("mgmt: %s was removed: %w", id.Node(), mesh.ErrDenied)
	case err == nil && revoked:
		err = fmt.Errorf("mgmt: %s is revoked: %w", id.Node(), mesh.ErrDenied)
	}
	return name, err
}
