package nodes

import (
	"cmp"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// spentLimit is how much may be moved, beyond what does not count.
type spentLimit struct {
	bytes int64 // 0: any
	from  mesh.Traffic
}

func limitOf(d mesh.Device) spentLimit {
	return spentLimit{bytes: d.Limits.Traffic, from: d.Reset.Used}
}

func (l spentLimit) counted(moved mesh.Traffic) int64 { return moved.Beyond(l.from).Bytes() }

func (l spentLimit) reached(moved mesh.Traffic) bool {
	return l.bytes > 0 && l.counted(moved) >= l.bytes
}

// spentStep is what becomes of a note.
type spentStep int

const (
	spentKept    spentStep = iota // as it is, or as there is none
	spentReached                  // written: the limit is reached
	spentEased                    // written: it is reached no more, although nobody raised it
	spentDropped                  // it says nothing
)

// decideSpent compares what is noted with what was moved up to now. A note that
// says that a limit is reached is never just dropped: those who are served again
// must wait for cores that know them, and go by when the note was written.
func decideSpent(l spentLimit, noted, now mesh.Traffic, known bool) spentStep {
	was, is := known && l.reached(noted), l.reached(now)
	switch {
	case is && !was:
		return spentReached
	case was && !is:
		return spentEased
	case known && !was:
		return spentDropped
	}
	return spentKept
}

// quotaCheck finds what is to be noted.
type quotaCheck struct {
	devices map[mesh.DeviceID]mesh.Device
	cells   map[mesh.CellID]mesh.Cell
	noted   map[string]mesh.Spent
	moved   map[mesh.DeviceID]mesh.DeviceTotal
}

// any says whether there is any limit, or was, so that traffic is to be added up.
func (c quotaCheck) any() bool {
	if len(c.noted) > 0 {
		return true
	}
	for _, cell := range c.cells {
		if cell.Guests.Traffic > 0 {
			return true
		}
	}
	for _, d := range c.devices {
		if d.Limits.Traffic > 0 {
			return true
		}
	}
	return false
}

// outOfStep are the notes to be written or dropped, with what was moved up to now.
func (c quotaCheck) outOfStep(now time.Time) []mesh.Spent {
	all := map[string]mesh.Spent{}
	for id, v := range c.noted {
		v.Moved = mesh.Traffic{}
		all[id] = v
	}
	for id, d := range c.devices {
		_, noted := all[string(id)]
		if moved := c.moved[id].Traffic; noted || limitOf(d).reached(moved) {
			all[string(id)] = mesh.Spent{ID: string(id), Device: id, Moved: moved}
		}
		c.addGuest(all, d)
	}
	var out []mesh.Spent
	for id, v := range all {
		noted, known := c.noted[id]
		if decideSpent(c.limit(v), noted.Moved, v.Moved, known) != spentKept {
			v.At = now
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b mesh.Spent) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// addGuest adds what d has moved as a guest to that of its member.
func (c quotaCheck) addGuest(all map[string]mesh.Spent, d mesh.Device) {
	for _, at := range mesh.HostsOf(d, c.cells) {
		host := at.Cell
		if host.Guests.Traffic == 0 {
			continue
		}
		id := mesh.SpentGuests(host.ID, d.Member)
		v := all[id]
		v.ID, v.Cell, v.Member = id, host.ID, d.Member
		if g := c.moved[d.ID].Guest[host.ID]; g.Since.Equal(at.Lost) {
			v.Moved = v.Moved.Plus(g.Traffic)
		}
		all[id] = v
	}
}

func (c quotaCheck) limit(v mesh.Spent) spentLimit {
	if v.Device != "" {
		return limitOf(c.devices[v.Device])
	}
	return spentLimit{bytes: c.cells[v.Cell].Guests.Traffic}
}
