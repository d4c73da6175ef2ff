package nodes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// WaitServed returns nil when every core that is ready and connected, of the cells
// in which the device is served, knows the device, and its routes name them. When
// none is ready it returns ErrUnavailable at once; when ctx ends first, an error
// that says what is missing. A device that is not to be served waits for nothing.
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
	m, ok := s.view.members.Get(d.Member)
	if !ok {
		return "this server does not know its member yet", nil
	}
	cell, ok := s.view.cells.Get(d.Assigned.Cell)
	if !ok {
		return "this server does not know its cell yet", nil
	}
	places := s.places(d, m)
	ready := 0
	for _, p := range places {
		n, missing := s.missingIn(d, p)
		if missing != "" {
			return missing, nil
		}
		ready += n
	}
	if ready == 0 && len(places) > 0 {
		return "", fmt.Errorf("nodes: wait for device %s: no core of cell %s is ready: %w", id, cell.Name, mesh.ErrUnavailable)
	}
	return "", nil
}

// places are where the device is to be served, as far as this server sees. Nobody
// waits for those in which it was served earlier.
func (s *Service) places(d mesh.Device, m mesh.Member) []mesh.Placement {
	spent := func(id string) mesh.Traffic { v, _ := s.view.spent.Get(id); return v.Moved }
	if mesh.DeviceStanding(d, m, spent(string(d.ID)), time.Now()) != mesh.StandingOK {
		return nil
	}
	cells := s.view.cells.All()
	var taken mesh.Taken
	if host, ok := mesh.FallbackOf(d.Assigned.Cell, cells); ok {
		over := host.Guests.ExhaustedBy(spent(mesh.SpentGuests(host.ID, m.ID)))
		taken.Spent = map[mesh.CellID]bool{host.ID: over}
		for _, o := range s.view.devices.All() {
			if o.Member == m.ID {
				taken.Devices = append(taken.Devices, o)
			}
		}
	}
	return slices.DeleteFunc(mesh.Placements(d, cells, taken), func(p mesh.Placement) bool { return !p.Until.IsZero() })
}

// missingIn counts the cores of one cell that are ready, and says what one of them
// lacks.
func (s *Service) missingIn(d mesh.Device, p mesh.Placement) (ready int, missing string) {
	named := s.named(d, p.Cell)
	for _, c := range s.view.cores.All() {
		if c.Cell != p.Cell.ID || c.State != mesh.CoreReady || !s.connected(nodeOf(mesh.RoleCore, string(c.ID))) {
			continue
		}
		ready++
		if !named[c.ID] {
			return ready, fmt.Sprintf("core %s has not acknowledged it", c.Name)
		}
	}
	return ready, ""
}

// connected says whether the node's stream is here or, as far as is known, on
// another server.
func (s *Service) connected(node string) bool {
	st, _ := s.view.status.Get(node)
	return st.Connected || s.hub.get(node) != nil
}

// named are the cores that every route of the device in the cell names.
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
