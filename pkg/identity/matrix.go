package identity

import (
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Protocols (ALPN) that mesh peers agree on.
const (
	ProtoGRPC  = "h2"
	ProtoRelay = "meshctl-relay/1"
	ProtoProbe = "meshctl-probe/1"
)

// Roles says which roles a listener admits, by protocol. What is not in it is
// refused.
type Roles map[string][]mesh.Role

// Accept is for Policy.Accept.
func (r Roles) Accept(alpn string, p Peer) error {
	if !slices.Contains(r[alpn], p.Role) {
		return denied(p.Leaf, fmt.Sprintf("a %s may not use %s here", p.Role, alpn))
	}
	return nil
}

// MgmtPort is who may connect to a management server's mesh port; the table of
// methods then decides about each call. Entries bring it the clients of the
// subscription service in a relay.
func MgmtPort() Roles {
	return Roles{ProtoGRPC: {mesh.RoleMgmt, mesh.RoleEntry, mesh.RoleCore, mesh.RoleAdmin}, ProtoRelay: {mesh.RoleEntry}}
}

// RelayPort is who may connect to a core.
func RelayPort() Roles {
	return Roles{ProtoRelay: {mesh.RoleEntry}, ProtoProbe: {mesh.RoleMgmt}}
}
