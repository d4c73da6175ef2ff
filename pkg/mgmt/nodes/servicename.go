package nodes

import (
	"context"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// serviceName is one pass that lets entries find the servers under the name of the
// subscription service. A server whose name does not resolve keeps the addresses
// it has.
func (l *leader) serviceName(ctx context.Context, _ bool) (time.Time, error) {
	v := l.s.view
	at := map[mesh.ServerID]mesh.Target{}
	if l.s.config().Subscription.Name != "" {
		for id, server := range v.servers.All() {
			if server.State != mesh.ServerMember {
				continue
			}
			t := mesh.ServerTarget(l.s.Mesh, server, nil, identity.ProtoRelay)
			for _, a := range server.Addresses {
				some, err := resolve(ctx, l.s.resolver(), a, 0)
				if err != nil {
					l.s.Log.Warn("address of the mesh not resolved", "addr", a, "err", err)
				}
				t.Addresses = append(t.Addresses, some...)
			}
			if len(t.Addresses) > 0 {
				at[id] = t
			}
		}
	}
	var held []mesh.ServerName
	for n, r := range v.routes.All() {
		if r.OfService() {
			held = append(held, n)
		}
	}
	changed, err := l.s.Store.ReconcileService(ctx, held, at)
	if changed {
		l.s.Log.Debug("route of the subscription service written")
	}
	return time.Time{}, err
}
