package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// peopleAround reads what decides where one device is served: in most cases the
// device, its member and its cell.
//
// The commit depends on those, on the cells and on what is spent. It does not
// depend on the other devices of the member, which decide whether a guest is taken
// in: their change has all routes looked at again.
func (tx *Tx) peopleAround(id mesh.DeviceID) (*People, error) {
	p := new(noPeople())
	if err := take(tx, tx.s.Devices, id, p.Devices); err != nil || len(p.Devices) == 0 {
		return p, err
	}
	d := p.Devices[id].Value
	if err := errors.Join(take(tx, tx.s.Members, d.Member, p.Members), take(tx, tx.s.Cells, d.Assigned.Cell, p.Cells)); err != nil {
		return p, err
	}
	if d.Limits.Traffic > 0 {
		if err := take(tx, tx.s.Spent, string(id), p.Spent); err != nil {
			return p, err
		}
	}
	own, ok := p.Cells[d.Assigned.Cell]
	if !ok || d.AtHome(own.Value) {
		return p, nil
	}
	return p, tx.hosts(p, d)
}

// PlacesOf are where a device is served at now, as of the transaction.
func PlacesOf(tx *Tx, id mesh.DeviceID, now time.Time) ([]mesh.Placement, error) {
	people, err := tx.peopleAround(id)
	if err != nil {
		return nil, fmt.Errorf("store: places of %s: %w", mesh.Quotable(string(id)), err)
	}
	var out []mesh.Placement
	for _, at := range people.Places(id, now) {
		out = append(out, at.Placement)
	}
	return out, nil
}

// hosts reads what decides whether a cell takes d in as a guest.
func (tx *Tx) hosts(p *People, d mesh.Device) error {
	if _, err := tx.list(tx.s.Cells.prefix(), true); err != nil {
		return err
	}
	plan, err := tx.plan()
	if err != nil {
		return err
	}
	if plan.cells == nil {
		if plan.cells, err = items(tx, tx.s.Cells); err != nil {
			return err
		}
	}
	p.Cells = plan.cells
	counted := false
	for _, at := range mesh.HostsOf(d, p.allCells()) {
		counted = counted || at.Cell.Guests.Devices > 0
		if at.Cell.Guests.Traffic == 0 {
			continue
		}
		if err := take(tx, tx.s.Spent, mesh.SpentGuests(at.Cell.ID, d.Member), p.Spent); err != nil {
			return err
		}
	}
	if !counted {
		return nil
	}
	removed, err := tx.read(deletionKey(folderDevices), false)
	if err != nil {
		return err
	}
	p.Removed = removed.rev
	return tx.household(p, d.Member)
}

// household reads all devices of a member.
func (tx *Tx) household(p *People, m mesh.MemberID) error {
	held, err := tx.list(namesPrefix(deviceNames(m)), false)
	if err != nil {
		return err
	}
	for _, e := range held {
		h, err := codec.Decode[holder](e.data)
		if err != nil {
			return fmt.Errorf("store: read %s: %w", strings.TrimPrefix(e.key, root), err)
		}
		e, err := tx.s.Devices.read(tx, mesh.DeviceID(h.ID), false)
		if err != nil {
			return err
		}
		if e.rev == 0 {
			continue
		}
		v, err := tx.s.Devices.decode([]byte(e.key), e.data)
		if err != nil {
			return err
		}
		p.Devices[v.ID] = Item[mesh.Device]{Key: h.ID, Value: v, Rev: e.rev}
	}
	return nil
}

// take reads one object into a map; one that is not there is no error.
func take[K ~string, V any](tx *Tx, c *Collection[K, V], id K, into map[K]Item[V]) error {
	it, err := GetItem(tx, c, id)
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	if err == nil {
		into[id] = it
	}
	return err
}
