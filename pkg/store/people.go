package store

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// People are what decides who is served where, all of it as of one moment, or as
// much of it as the devices in question need.
type People struct {
	Members map[mesh.MemberID]Item[mesh.Member]
	Devices map[mesh.DeviceID]Item[mesh.Device]
	Cells   map[mesh.CellID]Item[mesh.Cell]
	Spent   map[string]Item[mesh.Spent]
	// Removed is when a device was last removed; who was in its way may be taken
	// in since.
	Removed Rev

	of    map[mesh.MemberID][]mesh.Device // made when asked for
	cells map[mesh.CellID]mesh.Cell       // the same
	since Rev                             // of the last change of a cell, made with cells
}

// Place is a cell in which a device is served.
type Place struct {
	mesh.Placement
	// Since is the moment since which all that decides about it is as it is: who
	// knows everybody that the cell serves as of then or later knows the device.
	Since Rev
}

func noPeople() People {
	return People{Members: map[mesh.MemberID]Item[mesh.Member]{}, Devices: map[mesh.DeviceID]Item[mesh.Device]{},
		Cells: map[mesh.CellID]Item[mesh.Cell]{}, Spent: map[string]Item[mesh.Spent]{}}
}

// ReadPeople reads all there are.
func ReadPeople(tx *Tx) (*People, error) {
	var p People
	var err error
	if p.Members, err = items(tx, tx.s.Members); err != nil {
		return nil, err
	}
	if p.Devices, err = items(tx, tx.s.Devices); err != nil {
		return nil, err
	}
	if p.Cells, err = items(tx, tx.s.Cells); err != nil {
		return nil, err
	}
	if p.Spent, err = items(tx, tx.s.Spent); err != nil {
		return nil, err
	}
	removed, err := tx.read(deletionKey(folderDevices), false)
	p.Removed = removed.rev
	return &p, err
}

// items lists a folder without the commit depending on it.
func items[K ~string, V any](tx *Tx, c *Collection[K, V]) (map[K]Item[V], error) {
	entries, err := tx.list(c.prefix(), false)
	if err != nil {
		return nil, err
	}
	out := make(map[K]Item[V], len(entries))
	for _, e := range entries {
		id := c.idOf([]byte(e.key))
		v, err := c.decode([]byte(e.key), e.data)
		if err != nil {
			return nil, err
		}
		out[K(id)] = Item[V]{Key: id, Value: v, Rev: e.rev}
	}
	return out, nil
}

// Places are where a device is to be served at now, none if it is not; a zero now
// looks at no end of service, and of no place.
func (p *People) Places(id mesh.DeviceID, now time.Time) []Place {
	d, known := p.Devices[id]
	m := p.Members[d.Value.Member]
	own, placed := p.Cells[d.Value.Assigned.Cell]
	if !known || m.Key == "" || !placed || p.Standing(d.Value, m.Value, now) != mesh.StandingOK {
		return nil
	}
	since := max(d.Rev, m.Rev, own.Rev)
	if d.Value.Limits.Traffic > 0 {
		since = max(since, p.Spent[string(id)].Rev)
	}
	cells, taken := map[mesh.CellID]mesh.Cell{own.Value.ID: own.Value}, mesh.Taken{}
	guest := since
	if !d.Value.AtHome(own.Value) {
		cells = p.allCells()
		var more Rev
		taken, more = p.taken(d.Value, cells)
		guest = max(guest, more)
	}
	var out []Place
	for _, pl := range mesh.Placements(d.Value, cells, taken) {
		if pl.Ended(now) { // never at a zero now
			continue
		}
		at := Place{pl, since}
		if pl.Guest || !pl.Until.IsZero() {
			at.Since = guest
		}
		out = append(out, at)
	}
	return out
}

// Standing is how a device stands, by what is known to be spent.
func (p *People) Standing(d mesh.Device, m mesh.Member, now time.Time) mesh.Standing {
	return mesh.DeviceStanding(d, m, p.Spent[string(d.ID)].Value.Moved, now)
}

// taken is what decides about a guest, and since when that is so.
func (p *People) taken(d mesh.Device, cells map[mesh.CellID]mesh.Cell) (taken mesh.Taken, since Rev) {
	since = p.since
	for _, at := range mesh.HostsOf(d, cells) {
		host := at.Cell
		if host.Guests.Traffic > 0 {
			spent := p.Spent[mesh.SpentGuests(host.ID, d.Member)]
			if taken.Spent == nil {
				taken.Spent = map[mesh.CellID]bool{}
			}
			taken.Spent[host.ID] = host.Guests.ExhaustedBy(spent.Value.Moved)
			since = max(since, spent.Rev)
		}
		if host.Guests.Devices > 0 && taken.Devices == nil {
			taken.Devices = p.devicesOf(d.Member)
			since = max(since, p.Removed)
			for _, o := range taken.Devices {
				since = max(since, p.Devices[o.ID].Rev)
			}
		}
	}
	return taken, since
}

func (p *People) devicesOf(m mesh.MemberID) []mesh.Device {
	if p.of == nil {
		p.of = map[mesh.MemberID][]mesh.Device{}
		for _, d := range p.Devices {
			p.of[d.Value.Member] = append(p.of[d.Value.Member], d.Value)
		}
	}
	return p.of[m]
}

func (p *People) allCells() map[mesh.CellID]mesh.Cell {
	if p.cells == nil {
		p.cells = make(map[mesh.CellID]mesh.Cell, len(p.Cells))
		for id, c := range p.Cells {
			p.cells[id] = c.Value
			p.since = max(p.since, c.Rev)
		}
	}
	return p.cells
}
