package gateway

import (
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	routePrefix  = "/mesh/v1/routes/"
	targetPrefix = "/mesh/v1/targets/"
)

// RouteKey is where the route of a server name is stored.
func RouteKey(n mesh.ServerName) string { return routePrefix + string(n) }

// TargetKey is where the target of a core or management server is stored.
func TargetKey(id string) string { return targetPrefix + id }

// readable says whether an entry may read key: one route under a server name in
// its folded form, or one target under a well-formed id.
func readable(key []byte) bool {
	k := string(key)
	if name, ok := strings.CutPrefix(k, routePrefix); ok {
		n, err := mesh.ParseServerName(name)
		return err == nil && string(n) == name
	}
	id, ok := strings.CutPrefix(k, targetPrefix)
	return ok && isTargetID(id)
}

func isTargetID(id string) bool {
	if _, err := mesh.ParseCoreID(id); err == nil {
		return true
	}
	_, err := mesh.ParseServerID(id)
	return err == nil
}
