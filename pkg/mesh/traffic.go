package mesh

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"
)

// Traffic is what was moved: bytes from and to the client, and connections.
type Traffic struct {
	Up          int64 `json:"up,omitzero"`
	Down        int64 `json:"down,omitzero"`
	Connections int64 `json:"conns,omitzero"`
}

// Plus adds, never around the end.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{plus(t.Up, o.Up), plus(t.Down, o.Down), plus(t.Connections, o.Connections)}
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Beyond is what t has more than o, nothing less than zero.
func (t Traffic) Beyond(o Traffic) Traffic {
	return Traffic{max(0, t.Up-o.Up), max(0, t.Down-o.Down), max(0, t.Connections-o.Connections)}
}

// Max is the higher of each.
func (t Traffic) Max(o Traffic) Traffic {
	return Traffic{max(t.Up, o.Up), max(t.Down, o.Down), max(t.Connections, o.Connections)}
}

// Hour names an hour in UTC: 2026113009. Later ones are greater.
type Hour string

const hourForm = "2006010215"

// HourOf is the hour of a time.
func HourOf(t time.Time) Hour { return Hour(t.UTC().Format(hourForm)) }

// Start is when the hour begins; the zero time for what is none.
func (h Hour) Start() time.Time {
	t, err := time.Parse(hourForm, string(h))
	if err != nil {
		return time.Time{}
	}
	return t
}

// Next is the hour after it; of none the first that there is.
func (h Hour) Next() Hour {
	if h == "" {
		return ""
	}
	return HourOf(h.Start().Add(time.Hour))
}

// MeterHour is what a core had counted since it started, as it stood in an hour.
// Counts of one start of a core, its Meter, only rise, so of several the highest
// is right, whoever wrote it and how often. One start's counts may be spread over
// several objects.
type MeterHour struct {
	Hour    Hour                 `json:"hour"`
	Core    CoreID               `json:"core"`
	Meter   string               `json:"meter"`
	Devices map[DeviceID]Traffic `json:"devices"`
}

// TrafficShards is how many objects totals are in.
const TrafficShards = 64

// TrafficShard is the one in which a device is, 00 to 3f.
func TrafficShard(d DeviceID) string {
	h := fnv.New32a()
	h.Write([]byte(d))
	return fmt.Sprintf("%02x", h.Sum32()%TrafficShards)
}

// TrafficProgress says how far hours were added to totals.
type TrafficProgress struct {
	// Sealed is the last hour that is complete: what comes late is written of a
	// later one.
	Sealed Hour `json:"sealed"`
	// Counted is the last hour that is in all totals.
	Counted Hour `json:"counted,omitzero"`
}

// TrafficTotals is what some devices have moved since they were made.
type TrafficTotals struct {
	Devices map[DeviceID]DeviceTotal `json:"devices,omitzero"`
	// Cores is what these devices have moved through each core, also those that
	// are gone.
	Cores map[CoreID]Traffic `json:"cores,omitzero"`
}

// DeviceTotal is what a device has moved.
type DeviceTotal struct {
	Traffic
	Last Hour `json:"last,omitzero"` // when it moved something
	// Guest is what it has moved as a guest, by the cell that took it in; it is
	// part of what it has moved in all.
	Guest map[CellID]GuestTotal `json:"guest,omitzero"`
	// Meters are the counts that are in it already, by core and meter.
	Meters map[string]MeterMark `json:"meters,omitzero"`
}

// MeterMark is how far a meter is counted, and when it last rose.
type MeterMark struct {
	Traffic
	Hour Hour `json:"hour"`
}

// GuestTotal is what a device has moved as a guest since its cell was compromised.
type GuestTotal struct {
	Traffic
	Since time.Time `json:"since,omitzero"` // when its cell was
}

// GuestOf says of a device and a core through which it moves something, whether it
// is a guest there: in which cell, and since when its own is compromised.
type GuestOf func(DeviceID, CoreID) (host CellID, since time.Time, guest bool)

// Add counts what h has beyond what was counted of its meter, and says whether
// that was anything. Adding again, or something earlier, changes nothing. Nobody is
// a guest for a guestOf that is nil.
func (t *TrafficTotals) Add(h MeterHour, guestOf GuestOf) (changed bool) {
	meter := string(h.Core) + "." + h.Meter
	for id, now := range h.Devices {
		d := t.Devices[id]
		was := d.Meters[meter]
		more := now.Beyond(was.Traffic)
		if more == (Traffic{}) {
			continue
		}
		d.Traffic, d.Last = d.Traffic.Plus(more), max(d.Last, h.Hour)
		d.Meters = maps.Clone(d.Meters)
		if d.Meters == nil {
			d.Meters = map[string]MeterMark{}
		}
		d.Meters[meter] = MeterMark{now.Max(was.Traffic), max(was.Hour, h.Hour)}
		if guestOf != nil {
			if host, since, guest := guestOf(id, h.Core); guest && h.Hour >= HourOf(since) {
				d.addGuest(host, since, more)
			}
		}
		if t.Devices == nil {
			t.Devices = map[DeviceID]DeviceTotal{}
		}
		t.Devices[id] = d
		if t.Cores == nil {
			t.Cores = map[CoreID]Traffic{}
		}
		t.Cores[h.Core] = t.Cores[h.Core].Plus(more)
		changed = true
	}
	return changed
}

// addGuest begins anew where the device was a guest before.
func (d *DeviceTotal) addGuest(host CellID, since time.Time, more Traffic) {
	was := d.Guest[host]
	if !was.Since.Equal(since) {
		was = GuestTotal{Since: since}
	}
	was.Traffic = was.Plus(more)
	d.Guest = maps.Clone(d.Guest)
	if d.Guest == nil {
		d.Guest = map[CellID]GuestTotal{}
	}
	d.Guest[host] = was
}

// maxMarks is how many meters of a device are kept that are not needed any more.
const maxMarks = 16

// Forget drops the marks of meters that are not needed any more: those that have
// not risen since an hour, and all but the latest where a core starts over and
// over.
func (t *TrafficTotals) Forget(before Hour, needed func(meter string) bool) {
	for id, d := range t.Devices {
		d.Meters = maps.Clone(d.Meters)
		maps.DeleteFunc(d.Meters, func(meter string, m MeterMark) bool { return m.Hour < before && !needed(meter) })
		if len(d.Meters) > maxMarks {
			d.forgetMost(needed)
		}
		t.Devices[id] = d
	}
}

func (d DeviceTotal) forgetMost(needed func(meter string) bool) {
	var past []string
	for meter := range d.Meters {
		if !needed(meter) {
			past = append(past, meter)
		}
	}
	slices.SortFunc(past, func(a, b string) int { // later starts have higher numbers
		return cmp.Or(cmp.Compare(d.Meters[a].Hour, d.Meters[b].Hour), len(a)-len(b), cmp.Compare(a, b))
	})
	for _, meter := range past[:max(0, len(past)-maxMarks)] {
		delete(d.Meters, meter)
	}
}
