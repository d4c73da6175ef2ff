package store

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// planner decides routes. It keeps what is the same for every device of a
// transaction.
type planner struct {
	cores map[mesh.CellID][]mesh.Core
	acked map[mesh.CoreID]Rev             // device table a core has acknowledged
	cells map[mesh.CellID]Item[mesh.Cell] // all, made when asked for
}

// routeIndex is the value of a key under names/routes/: by it the routes of a
// device are found, also those of labels it no longer has.
type routeIndex struct {
	Names []mesh.ServerName `json:"names"`
}

// SyncRoutes writes what differs between the routes a device has and those it is
// to have at now. It is called in the transaction of a change and again by a
// reconciler, so a device that does not exist is no error: it has no routes.
//
// A core is named in a route when it is in the cell whose name it is, was ready
// once, is not revoked, and knows the device under that name: either the route
// names it already, or NodeStatus.DevicesRev, the revision of the store of which
// the core acknowledged a device table, is not before Place.Since, the last change
// of the device and of what else decides that the cell serves it. (A table of
// before its member became active lacks it.) So whoever makes tables acknowledges
// the revision that View returned for all that a table was made of, and sends one,
// if only an empty delta, after each such change.
func SyncRoutes(tx *Tx, id mesh.DeviceID, now time.Time) error {
	if err := syncRoutes(tx, id, now); err != nil {
		return fmt.Errorf("store: routes of %s: %w", mesh.Quotable(string(id)), err)
	}
	return nil
}

func syncRoutes(tx *Tx, id mesh.DeviceID, now time.Time, alsoDrop ...mesh.ServerName) error {
	if tx.mode == viewing {
		return errReadOnly
	}
	have, err := heldRoutes(tx, id)
	if err != nil {
		return err
	}
	people, err := tx.peopleAround(id)
	if err != nil {
		return err
	}
	want, err := wantedRoutes(tx, people, id, now)
	if err != nil {
		return err
	}
	for _, n := range slices.Concat(have, alsoDrop) {
		if _, ok := want[n]; !ok {
			if err := dropRoute(tx, id, n); err != nil {
				return err
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(want)) {
		if err := writeRoute(tx, want[n]); err != nil {
			return err
		}
	}
	return noteRoutes(tx, id, have, slices.Sorted(maps.Keys(want)))
}

func heldRoutes(tx *Tx, id mesh.DeviceID) ([]mesh.ServerName, error) {
	e, err := tx.read(routeIndexKey(id), tx.mode != viewing)
	if err != nil || e.rev == 0 {
		return nil, err
	}
	ix, err := codec.Decode[routeIndex](e.data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", strings.TrimPrefix(e.key, root), err)
	}
	return ix.Names, nil
}

func noteRoutes(tx *Tx, id mesh.DeviceID, have, want []mesh.ServerName) error {
	if slices.Equal(have, want) {
		return nil
	}
	if len(want) == 0 {
		tx.put(routeIndexKey(id), nil, nil)
		return nil
	}
	data, err := codec.Encode(routeIndex{want})
	if err != nil {
		return err
	}
	tx.put(routeIndexKey(id), data, nil)
	return nil
}

func dropRoute(tx *Tx, id mesh.DeviceID, n mesh.ServerName) error {
	r, err := Get(tx, tx.s.Routes, n)
	if errors.Is(err, mesh.ErrNotFound) || (err == nil && r.Device != id) {
		return nil
	}
	if err != nil {
		return err
	}
	return Delete(tx, tx.s.Routes, n)
}

func writeRoute(tx *Tx, want mesh.Route) error {
	have, err := Get(tx, tx.s.Routes, want.Name)
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return Create(tx, tx.s.Routes, want.Name, want)
	case err != nil:
		return err
	case have.OfService() && !want.OfService():
		return fmt.Errorf("the server name %s is that of the subscription service: %w", want.Name, mesh.ErrExists)
	case have.Device != want.Device:
		return fmt.Errorf("the server name %s is that of device %s: %w", want.Name, have.Device, mesh.ErrExists)
	}
	return Update(tx, tx.s.Routes, want.Name, func(r *mesh.Route) error {
		if !reflect.DeepEqual(*r, want) {
			*r = want
		}
		return nil
	})
}

// wantedRoutes is what the routes of a device are to be.
func wantedRoutes(tx *Tx, people *People, id mesh.DeviceID, now time.Time) (map[mesh.ServerName]mesh.Route, error) {
	out := map[mesh.ServerName]mesh.Route{}
	for _, at := range people.Places(id, now) {
		if err := routesAt(tx, people.Devices[id].Value, at, now, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// routesAt adds those in one cell.
func routesAt(tx *Tx, d mesh.Device, at Place, now time.Time, out map[mesh.ServerName]mesh.Route) error {
	p, err := tx.plan()
	if err != nil {
		return err
	}
	for _, l := range d.Labels {
		name, err := at.Cell.Suffix.Child(l.Label)
		if err != nil {
			return err
		}
		named, err := coresNow(tx, d.ID, name)
		if err != nil {
			return err
		}
		hops := mesh.Hops(d, at.Cell.ID, p.cores[at.Cell.ID], func(core mesh.Core) bool {
			return named[core.ID] || p.acked[core.ID] >= at.Since
		})
		one := d
		one.Labels = []mesh.Label{l}
		for _, r := range mesh.RoutesOf(one, at.Placement, hops, now) {
			out[r.Name] = r
		}
	}
	return nil
}

func absent(err error) error {
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	return err
}

// coresNow are the cores that the device's present route of that name names.
func coresNow(tx *Tx, id mesh.DeviceID, n mesh.ServerName) (map[mesh.CoreID]bool, error) {
	r, err := Get(tx, tx.s.Routes, n)
	if err != nil || r.Device != id {
		return nil, absent(err)
	}
	out := make(map[mesh.CoreID]bool, len(r.Hops))
	for _, h := range r.Hops {
		if h.Kind == mesh.HopCore {
			out[mesh.CoreID(h.ID)] = true
		}
	}
	return out, nil
}

// plan reads the cores, and what they have acknowledged. Acknowledgements are
// written often and only ever rise while a core keeps its state, so the commit
// does not depend on them: an older one names a core later, not wrongly.
func (tx *Tx) plan() (*planner, error) {
	if tx.routes != nil {
		return tx.routes, nil
	}
	cores, err := List(tx, tx.s.Cores)
	if err != nil {
		return nil, err
	}
	p := &planner{cores: map[mesh.CellID][]mesh.Core{}, acked: map[mesh.CoreID]Rev{}}
	for _, c := range cores {
		p.cores[c.Cell] = append(p.cores[c.Cell], c)
	}
	entries, err := tx.list(coreStatusPrefix, false)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		st, err := tx.s.Status.decode([]byte(e.key), e.data)
		if err != nil {
			return nil, err
		}
		p.acked[mesh.CoreID(strings.TrimPrefix(e.key, coreStatusPrefix))] = Rev(st.DevicesRev)
	}
	tx.routes = p
	return p, nil
}
