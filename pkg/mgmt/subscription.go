package mgmt

import (
	"context"
	"net"
	"time"

	"github.com/meshctl/meshctl/pkg/mgmt/subs"
)

// runSubscription answers clients that ask what they may connect to. What it
// tells them is read from the copies of the state that nodes keep.
func (r *runtime) runSubscription(ctx context.Context, ready func()) error {
	m := r.nodes.Mirrors()
	r.subs.State = subs.Mirrors{
		Store: r.store, Settings: m.Config, MemberSet: m.Members, DeviceSet: m.Devices, CellSet: m.Cells, SpentSet: m.Spent, Rollouts: m.Rollouts, RouteSet: m.Routes,
		Kubes: m.Kubes, KubeState: m.KubeStates,
	}
	r.subs.Certificate, r.subs.Registerer, r.subs.Log = r.certs.Subscription, r.registry, r.log.With("unit", "subscription")
	return r.subs.Run(ctx, ready)
}

// takeRelay lets an entry bring clients, unless a mesh that was restored still
// waits for what its nodes know: the entry may have been revoked since.
func (r *runtime) takeRelay(conn net.Conn, entry string, ends time.Time) bool {
	return !r.nodes.Collecting() && r.subs.Take(conn, entry, ends)
}
