package mesh

import (
	"cmp"
	"slices"
	"time"
)

// Placement is a cell in which a device is served, and how.
type Placement struct {
	Cell Cell
	// Guest: the device is of another cell, whose fallback this one is.
	Guest bool
	// Lost is, of a guest, when its cell was declared compromised.
	Lost   time.Time
	Limits Limits
	// ForwardClientAddress passes the client's address to the cell's cores. For
	// a guest, its own cell has to do so as well.
	ForwardClientAddress bool
	// Until is set where the device was served earlier: it ends then. Zero: no end.
	Until time.Time
}

// Offered says whether clients are given the names of the place.
func (p Placement) Offered() bool { return p.Until.IsZero() && p.Cell.State == CellActive }

// Ended says whether the place has come to its end at now.
func (p Placement) Ended(now time.Time) bool { return ended(p.Until, now) }

// Taken is what decides about guests beside the cells.
type Taken struct {
	// Devices are all of the member's, in any order.
	Devices []Device
	// Spent are the cells in which guests of the member have moved as much as
	// GuestLimits.Traffic grants them.
	Spent map[CellID]bool
}

// Placements are the cells in which d is served as long as its standing is ok,
// the one to be used last: its own unless that is retired, and while that is not
// active the fallback that takes it in as a guest. Before them come those in which
// it was served earlier, also when they have ended, as time decides nothing here.
// None comes twice. cells are all there are, or at least those that can be reached
// by fallbacks and from earlier places.
func Placements(d Device, cells map[CellID]Cell, taken Taken) []Placement {
	return slices.DeleteFunc(candidates(d, cells), func(p Placement) bool {
		return p.Guest && (taken.Spent[p.Cell.ID] || !admitted(d, p.Cell, cells, taken.Devices))
	})
}

// HostsOf are the places in which d is a guest if the cells there have room.
func HostsOf(d Device, cells map[CellID]Cell) []Placement {
	return slices.DeleteFunc(candidates(d, cells), func(p Placement) bool { return !p.Guest })
}

// GuestIn says whether d is a guest in a cell, and since when its own is lost; ok
// is false for a cell that has no place for it.
func GuestIn(d Device, in CellID, cells map[CellID]Cell) (lost time.Time, guest, ok bool) {
	for _, p := range candidates(d, cells) {
		if p.Cell.ID == in {
			return p.Lost, p.Guest, true
		}
	}
	return time.Time{}, false, false
}

// candidates are the placements of d if there is room in every cell.
func candidates(d Device, cells map[CellID]Cell) []Placement {
	own, ok := cells[d.Assigned.Cell]
	if !ok {
		return nil
	}
	var now []Placement
	if own.State != CellRetired {
		now = append(now, Placement{Cell: own, Limits: d.Limits, ForwardClientAddress: own.ForwardClientAddress})
	}
	if host, ok := FallbackOf(own.ID, cells); ok {
		now = append(now, Placement{
			Cell: host, Guest: true, Lost: own.Compromised, Limits: host.Guests.lower(d.Limits),
			ForwardClientAddress: host.ForwardClientAddress && own.ForwardClientAddress,
		})
	}
	return append(earlierPlaces(d, own, cells, now), now...)
}

// FallbackOf is the cell that stands in for one that is not active: the nearest
// active one, so that those a cell names itself go before those that these name.
func FallbackOf(id CellID, cells map[CellID]Cell) (Cell, bool) {
	own, ok := cells[id]
	if !ok || own.State == CellActive {
		return Cell{}, false
	}
	for c := range reached(id, cells) {
		if c.State == CellActive {
			return c, true
		}
	}
	return Cell{}, false
}

// MayHost says whether a cell may ever serve devices of another: it is that one,
// or can be reached from it by fallbacks.
func MayHost(host, home CellID, cells map[CellID]Cell) bool {
	if host == home {
		return true
	}
	for c := range reached(home, cells) {
		if c.ID == host {
			return true
		}
	}
	return false
}

// reached are the cells to which fallbacks lead from one, the nearest first, each
// once and that one never.
func reached(from CellID, cells map[CellID]Cell) func(yield func(Cell) bool) {
	return func(yield func(Cell) bool) {
		seen := map[CellID]bool{from: true}
		for queue := slices.Clone(cells[from].Fallback); len(queue) > 0; queue = queue[1:] {
			c, ok := cells[queue[0]]
			if !ok || seen[c.ID] {
				continue
			}
			seen[c.ID] = true
			if !yield(c) {
				return
			}
			queue = append(queue, c.Fallback...)
		}
	}
}

// admitted says whether d is among the devices of its member that host takes in.
// Those that were made first go first, whichever of them are in use.
func admitted(d Device, host Cell, cells map[CellID]Cell, all []Device) bool {
	if host.Guests.Devices <= 0 {
		return true
	}
	before := 0
	for _, o := range all {
		if o.ID == d.ID || o.State != DeviceActive || byAge(o, d) >= 0 {
			continue
		}
		if slices.ContainsFunc(HostsOf(o, cells), func(p Placement) bool { return p.Cell.ID == host.ID }) {
			before++
		}
	}
	return before < host.Guests.Devices
}

func byAge(a, b Device) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) }

// lower is what a guest may use whose own limits are l.
func (g GuestLimits) lower(l Limits) Limits {
	if g.Connections > 0 && (l.Connections == 0 || g.Connections < l.Connections) {
		l.Connections = g.Connections
	}
	return l
}
