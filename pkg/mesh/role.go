package mesh

import (
	"fmt"
	"strings"
)

// Role is what a certificate of the mesh stands for.
type Role string

// The roles. The subcommand chooses one; the certificate proves it.
const (
	RoleMgmt  Role = "mgmt"
	RoleEntry Role = "entry"
	RoleCore  Role = "core"
	RoleAdmin Role = "admin"
)

// ParseRole checks s. It returns ErrInvalid.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case RoleMgmt, RoleEntry, RoleCore, RoleAdmin:
		return r, nil
	}
	return "", fmt.Errorf("mesh: parse role %q: want mgmt, entry, core or admin: %w", Quotable(s), ErrInvalid)
}

// Identity is who a verified certificate says its holder is: the one URI SAN
// spiffe://<mesh id>/<role>/<id> (SPIFFE ID, spiffe.io).
type Identity struct {
	Mesh ID     `json:"mesh"`
	Role Role   `json:"role"`
	ID   string `json:"id"`
}

// String is the URI form.
func (i Identity) String() string {
	return "spiffe://" + string(i.Mesh) + "/" + string(i.Role) + "/" + i.ID
}

// IsZero says that nobody was identified.
func (i Identity) IsZero() bool { return i == Identity{} }

// Node is role/id, the form used in keys, logs and tables.
func (i Identity) Node() string { return string(i.Role) + "/" + i.ID }

// ParseIdentity reads the URI form and checks every part. It returns ErrInvalid.
func ParseIdentity(uri string) (Identity, error) {
	bad := func(why string) (Identity, error) {
		return Identity{}, fmt.Errorf("mesh: parse identity %q: %s: %w", Quotable(uri), why, ErrInvalid)
	}
	rest, ok := strings.CutPrefix(uri, "spiffe://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return bad("want spiffe://<mesh>/<role>/<id>")
	}
	id, err := ParseID(parts[0])
	if err != nil {
		return bad("mesh id")
	}
	role, err := ParseRole(parts[1])
	if err != nil {
		return bad("role")
	}
	if _, err := parseID(string(role), parts[2]); err != nil {
		return bad("id")
	}
	return Identity{Mesh: id, Role: role, ID: parts[2]}, nil
}
