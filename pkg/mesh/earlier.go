package mesh

import (
	"slices"
	"time"
)

// maxEarlier is how many earlier places are kept, so that moving over and over
// fills no table. A device of a compromised cell has two places at once.
const maxEarlier = 2

// EarlierPlace is a cell in which devices were served until they were moved, or
// until their own cell was restored. They go on being served there for a while, as
// their clients have yet to hear of it, but clients are not given its names.
type EarlierPlace struct {
	Cell CellID `json:"cell"`
	// Guest: that cell had taken them in.
	Guest bool `json:"guest,omitzero"`
	// Lost is, of guests, when their cell was declared compromised.
	Lost time.Time `json:"lost,omitzero"`
	// NotAfter is when it ends. Until upkeep drops it after that, it goes on
	// counting for what a cell grants guests: who is taken in never depends on time.
	NotAfter time.Time `json:"notAfter"`
}

// Move assigns the device to another place. The cells in which it is served now
// serve it on until then at the latest, those that serve it longest when there are
// too many.
func (d *Device) Move(to Assignment, now []Placement, until time.Time) {
	if to.Cell != d.Assigned.Cell {
		var all []EarlierPlace
		for _, p := range now {
			if p.Cell.ID != to.Cell {
				all = append(all, EarlierPlace{Cell: p.Cell.ID, Guest: p.Guest, Lost: p.Lost, NotAfter: sooner(p.Until, until)})
			}
		}
		d.Earlier = lastEarlier(all)
	}
	d.Assigned = to
}

// AtHome says whether the device is served in its own cell, own, and nowhere else,
// so that nothing else decides about it.
func (d Device) AtHome(own Cell) bool {
	return own.State == CellActive && len(d.Earlier) == 0 && len(own.Earlier) == 0
}

// Restore makes a compromised cell active. The fallback that has taken its devices
// in serves them on until then.
func (c *Cell) Restore(cells map[CellID]Cell, until time.Time) {
	if host, ok := FallbackOf(c.ID, cells); ok {
		others := slices.DeleteFunc(slices.Clone(c.Earlier), func(e EarlierPlace) bool { return e.Cell == host.ID })
		c.Earlier = lastEarlier(append(others, EarlierPlace{Cell: host.ID, Guest: true, Lost: c.Compromised, NotAfter: until}))
	}
	c.State = CellActive
}

func lastEarlier(all []EarlierPlace) []EarlierPlace { return all[max(0, len(all)-maxEarlier):] }

func (e EarlierPlace) end() time.Time { return e.NotAfter }

// withoutEnded is what is left of earlier places at now, nil for none.
func withoutEnded(all []EarlierPlace, now time.Time) []EarlierPlace {
	var out []EarlierPlace
	for _, e := range all {
		if now.Before(e.NotAfter) {
			out = append(out, e)
		}
	}
	return out
}

// earlierPlaces are the cells in which d was served before, other than those in
// which it is served now; the one that ends last comes last.
func earlierPlaces(d Device, own Cell, cells map[CellID]Cell, now []Placement) []Placement {
	all := slices.Concat(d.Earlier, own.Earlier)
	slices.Reverse(all) // and out once more
	slices.SortStableFunc(all, func(a, b EarlierPlace) int { return b.NotAfter.Compare(a.NotAfter) })
	var out []Placement
	for _, e := range all {
		c, ok := cells[e.Cell]
		there := func(p Placement) bool { return p.Cell.ID == e.Cell }
		switch {
		case !ok || c.State == CellRetired || e.Guest && c.State != CellActive:
			continue
		case e.Cell == own.ID || slices.ContainsFunc(now, there) || slices.ContainsFunc(out, there):
			continue
		}
		p := Placement{Cell: c, Limits: d.Limits, ForwardClientAddress: c.ForwardClientAddress, Until: e.NotAfter}
		if e.Guest { // the cell that would have to pass the address on may be gone
			p.Guest, p.Lost, p.Limits, p.ForwardClientAddress = true, e.Lost, c.Guests.lower(d.Limits), false
		}
		out = append(out, p)
	}
	slices.Reverse(out)
	return out
}
