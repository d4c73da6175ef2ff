package nodes

import (
	"context"
	"maps"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// router keeps routes and targets what they are to be.
type router struct {
	s    *Service
	seen [5]store.Rev // of the mirrors that decide about routes, when they were last right
	acks map[mesh.CoreID]int64
	next time.Time // when time alone changes a route
}

// pass is one pass of the router. It reads the store only when something that
// decides about routes has changed, or their time has come.
func (r *router) pass(ctx context.Context, full bool) (time.Time, error) {
	v, now := r.s.view, time.Now()
	seen := [5]store.Rev{v.members.Rev(), v.devices.Rev(), v.cells.Rev(), v.cores.Rev(), v.spent.Rev()}
	acks := r.acknowledged()
	due := !r.next.IsZero() && !now.Before(r.next)
	if !full && !due && seen == r.seen && maps.Equal(acks, r.acks) {
		return r.next, nil
	}
	n, err := r.s.Store.ReconcileRoutes(ctx, now)
	if n > 0 {
		r.s.Log.Debug("routes written", "count", n)
	}
	if err != nil {
		return time.Time{}, err
	}
	if full {
		if _, err := r.s.Store.ReconcileTargets(ctx, r.s.Mesh, identity.ProtoRelay); err != nil {
			return time.Time{}, err
		}
	}
	r.seen, r.acks, r.next = seen, acks, nextEnd(v.devices.All(), v.cells.All(), now)
	return r.next, nil
}

// acknowledged are the revisions of the device tables that cores run.
func (r *router) acknowledged() map[mesh.CoreID]int64 {
	out := map[mesh.CoreID]int64{}
	status := r.s.view.status.All()
	for id := range r.s.view.cores.All() {
		out[id] = status[nodeOf(mesh.RoleCore, string(id))].DevicesRev
	}
	return out
}

// nextEnd is when the next name or service ends after now; zero: none does.
func nextEnd(devices map[mesh.DeviceID]mesh.Device, cells map[mesh.CellID]mesh.Cell, now time.Time) time.Time {
	var next time.Time
	for _, d := range devices {
		if d.Limits.Expires.After(now) {
			next = sooner(next, d.Limits.Expires)
		}
	}
	return sooner(next, nextNameEnd(devices, cells, now))
}

// nextNameEnd is when the next label or earlier place ends after now; zero: none
// does.
func nextNameEnd(devices map[mesh.DeviceID]mesh.Device, cells map[mesh.CellID]mesh.Cell, now time.Time) time.Time {
	var next time.Time
	ends := func(t time.Time) {
		if t.After(now) {
			next = sooner(next, t)
		}
	}
	for _, d := range devices {
		for _, l := range d.Labels {
			ends(l.NotAfter)
		}
		for _, e := range d.Earlier {
			ends(e.NotAfter)
		}
	}
	for _, c := range cells {
		for _, e := range c.Earlier {
			ends(e.NotAfter)
		}
	}
	return next
}
