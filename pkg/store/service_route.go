package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ReconcileService makes the route of the subscription service, and the targets of
// the servers that answer it, what they are to be. held are names under which a
// service may have routes. at is where servers were found to be; one that is not
// among them keeps the target it has. It says whether it wrote anything.
func (s *Store) ReconcileService(ctx context.Context, held []mesh.ServerName, at map[mesh.ServerID]mesh.Target) (changed bool, err error) {
	_, err = s.Update(ctx, func(tx *Tx) error {
		route, ok, err := serviceRoute(tx)
		if err != nil {
			return err
		}
		if err := tx.serviceTargets(route, at); err != nil {
			return err
		}
		for _, n := range held {
			if n != route.Name || !ok {
				if err := dropRoute(tx, "", n); err != nil {
					return err
				}
			}
		}
		if ok {
			if err := writeRoute(tx, route); err != nil {
				return err
			}
		}
		changed = len(tx.writes) > 0
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("store: route of the subscription service: %w", err)
	}
	return changed, nil
}

func serviceRoute(tx *Tx) (mesh.Route, bool, error) {
	name, err := serviceName(tx)
	if err != nil || name == "" {
		return mesh.Route{}, false, err
	}
	servers, err := List(tx, tx.s.Servers)
	if err != nil {
		return mesh.Route{}, false, err
	}
	r, ok := mesh.ServiceRoute(name, servers)
	return r, ok, nil
}

// serviceName is that of the subscription service, "" for none.
func serviceName(tx *Tx) (mesh.ServerName, error) {
	c, err := Get(tx, tx.s.Config, ConfigKey)
	return c.Subscription.Name, absent(err)
}

// serviceTargets brings the targets of servers in line with the hops of a route.
func (tx *Tx) serviceTargets(r mesh.Route, at map[mesh.ServerID]mesh.Target) error {
	have, err := List(tx, tx.s.Targets)
	if err != nil {
		return err
	}
	maps.DeleteFunc(have, func(_ string, t mesh.Target) bool { return t.Kind != mesh.HopMgmt })
	for _, id := range slices.Sorted(maps.Keys(have)) {
		if !slices.Contains(r.Hops, mesh.Hop{Kind: mesh.HopMgmt, ID: id}) {
			if err := Delete(tx, tx.s.Targets, id); err != nil {
				return err
			}
		}
	}
	for _, h := range r.Hops {
		want, found := at[mesh.ServerID(h.ID)]
		old, known := have[h.ID]
		switch {
		case !found || known && reflect.DeepEqual(old, want):
		case known:
			err = Update(tx, tx.s.Targets, h.ID, func(t *mesh.Target) error { *t = want; return nil })
		default:
			err = Create(tx, tx.s.Targets, h.ID, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkConfig refuses a name for the subscription service that is a cell's, or
// could be a device's.
func checkConfig(tx *Tx, before *mesh.Config, after mesh.Config) error {
	name := after.Subscription.Name
	if name == "" || before != nil && before.Subscription.Name == name {
		return nil
	}
	cells, err := List(tx, tx.s.Cells)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if err := apart(name, c.Suffix); err != nil {
			return err
		}
	}
	return nil
}

// apart returns ErrExists when the service would have the name of a cell, of a
// device or of a zone that holds one.
func apart(service, suffix mesh.ServerName) error {
	if service != "" && overlap(service, suffix) {
		return mesh.WithHint(fmt.Errorf("%s is the subscription service, and overlaps %s, the suffix of a cell: %w", service, suffix, mesh.ErrExists),
			"take a name that is neither below the suffix of a cell nor above one")
	}
	return nil
}
