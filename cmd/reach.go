package cmd

import (
	"log/slog"
	"os"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/doctor"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// reachChecks look at each management server that the node in dir knows; none
// before it joined.
func reachChecks(dir string) []doctor.Check {
	node, err := doctor.LoadNode(identityDir(dir))
	if err != nil {
		return nil // the check of the identity says why
	}
	state, err := control.OpenState(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	revs, err := identity.OpenRevocations("", node.Roots(), node.Identity().Mesh)
	if err != nil {
		return nil
	}
	var out []doctor.Check
	for _, addr := range state.Addresses() {
		want := mesh.Identity{Mesh: node.Identity().Mesh, Role: mesh.RoleMgmt}
		out = append(out, doctor.Reach(addr, node.ClientTLS(want, revs, "h2")))
	}
	return out
}

// hostName is this machine's name for people, or a fixed word when it has none.
func hostName() string {
	if name, err := os.Hostname(); err == nil && mesh.CheckName(name) == nil {
		return name
	}
	return "mgmt"
}
