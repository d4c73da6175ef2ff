package nodes

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// router keeps routes and targets what they are to be.
type router struct {
	s    *Service
	seen [4]store.Rev // of the mirrors that decide about routes, when they were last right
	acks map[mesh.CoreID]int64
	next time.Time // when time alone changes a route
}

// pass is one pass of the router. It reads the store only when something that
// decides about routes has changed, or their time has come.
func (r *router) pass(ctx context.Context, full bool) (time.Time, error) {
	v, now := r.s.view, time.Now()
	seen := [4]store.Rev{v.members.Rev(), v.devices.Rev(), v.cells.Rev(), v.cores.Rev()}
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
	r.seen, r.acks, r.next = seen, acks, nextEnd(v.devices.All(), now)
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

// nextEnd is when the next label or service ends after now; zero: none does.
func nextEnd(devices map[mesh.DeviceID]mesh.Device, now time.Time) time.Time {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) {
			next = sooner(next, t)
		}
	}
	for _, d := range devices {
		consider(d.Limits.Expires)
		for _, l := range d.Labels {
			consider(l.NotAfter)
		}
	}
	return next
}

// WaitServed returns nil when every core of the device's cell that is ready and
// connected knows the device, and its routes name them. When none is ready it
// returns ErrUnavailable at once; when ctx ends first, an error that says what
// is missing.
func (s *Service) WaitServed(ctx context.Context, id mesh.DeviceID) error {
	if s.plan.Load() == nil {
		return fmt.Errorf("nodes: wait for device %s: this server is starting: %w", id, mesh.ErrUnavailable)
	}
	for {
		devices, cores, routes := s.view.devices.Changed(), s.view.cores.Changed(), s.view.routes.Changed()
		missing, err := s.missing(id)
		if err != nil || missing == "" {
			return err
		}
		select {
		case <-devices:
		case <-cores:
		case <-routes:
		case <-ctx.Done():
			return fmt.Errorf("nodes: wait for device %s: %s: %w", id, missing, mesh.ErrUnavailable)
		}
	}
}

// missing says what keeps a device from being served everywhere, "" if nothing.
func (s *Service) missing(id mesh.DeviceID) (string, error) {
	d, ok := s.view.devices.Get(id)
	if !ok {
		return "this server does not know it yet", nil
	}
	cell, ok := s.view.cells.Get(d.Assigned.Cell)
	if !ok {
		return "this server does not know its cell yet", nil
	}
	named := s.named(d, cell)
	ready := 0
	for _, c := range s.view.cores.All() {
		if c.Cell != cell.ID || c.State != mesh.CoreReady || !s.connected(nodeOf(mesh.RoleCore, string(c.ID))) {
			continue
		}
		ready++
		if !named[c.ID] {
			return fmt.Sprintf("core %s has not acknowledged it", c.Name), nil
		}
	}
	if ready == 0 {
		return "", fmt.Errorf("nodes: wait for device %s: no core of cell %s is ready: %w", id, cell.Name, mesh.ErrUnavailable)
	}
	return "", nil
}

// connected says whether the node's stream is here or, as far as is known, on
// another server.
func (s *Service) connected(node string) bool {
	st, _ := s.view.status.Get(node)
	return st.Connected || s.hub.get(node) != nil
}

// named are the cores that every route of the device names.
func (s *Service) named(d mesh.Device, cell mesh.Cell) map[mesh.CoreID]bool {
	names := d.Names(cell.Suffix, time.Now())
	count := map[mesh.CoreID]int{}
	for _, n := range names {
		r, _ := s.view.routes.Get(n)
		for _, h := range r.Hops {
			count[mesh.CoreID(h.ID)]++
		}
	}
	out := map[mesh.CoreID]bool{}
	for id, n := range count {
		out[id] = n == len(names)
	}
	return out
}
