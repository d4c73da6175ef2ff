package adminsvc

import (
	"context"
	"errors"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// routeGet takes a server name first: a device may be called like one.
func (s *Service) routeGet(ctx context.Context, req admin.Ref) (admin.List[admin.RouteView], error) {
	none := admin.List[admin.RouteView]{Items: []admin.RouteView{}}
	if name, err := mesh.ParseServerName(req.Ref); err == nil {
		r, err := s.Store.Routes.Get(ctx, name)
		if err == nil {
			return s.routeViews(ctx, []mesh.Route{r.Value})
		}
		if !errors.Is(err, mesh.ErrNotFound) {
			return none, err
		}
	}
	d, err := s.Store.Devices.Lookup(ctx, req.Ref)
	if err != nil {
		return none, err
	}
	u, err := s.usage(ctx)
	if err != nil {
		return none, err
	}
	names := s.namesOf(d, u)
	found, err := s.routesOf(ctx, names)
	if err != nil {
		return none, err
	}
	var routes []mesh.Route
	for _, n := range names {
		if r, ok := found[n]; ok {
			routes = append(routes, r)
		}
	}
	return s.routeViews(ctx, routes)
}

func (s *Service) routeViews(ctx context.Context, routes []mesh.Route) (admin.List[admin.RouteView], error) {
	out := admin.List[admin.RouteView]{Items: []admin.RouteView{}}
	u, err := s.usage(ctx)
	if err != nil {
		return out, err
	}
	for _, r := range routes {
		v := admin.RouteView{Route: r, Targets: []mesh.Target{}}
		for _, p := range u.served.Places(r.Device, s.now()) {
			v.Earlier = v.Earlier || !p.Until.IsZero() && r.Name.Under(p.Cell.Suffix)
		}
		for _, h := range r.Hops {
			t, err := s.Store.Targets.Get(ctx, h.ID)
			if errors.Is(err, mesh.ErrNotFound) {
				continue
			}
			if err != nil {
				return out, err
			}
			v.Targets = append(v.Targets, t.Value)
		}
		out.Items = append(out.Items, v)
	}
	return out, nil
}
