package mesh

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// cellsOf makes cells named by letters from "A!>BC": compromised, with fallbacks
// B and C; "A." is retired.
func cellsOf(specs ...string) map[CellID]Cell {
	out := map[CellID]Cell{}
	for _, s := range specs {
		id, to, _ := strings.Cut(s, ">")
		c := Cell{State: CellActive}
		switch {
		case strings.HasSuffix(id, "!"):
			c.State = CellCompromised
		case strings.HasSuffix(id, "."):
			c.State = CellRetired
		}
		c.ID = CellID(strings.TrimRight(id, "!."))
		c.Suffix = ServerName(strings.ToLower(string(c.ID)) + ".example.net")
		for f := range strings.SplitSeq(to, "") {
			c.Fallback = append(c.Fallback, CellID(f))
		}
		out[c.ID] = c
	}
	return out
}

func inCell(id CellID) Device {
	return Device{ID: NewDeviceID(), State: DeviceActive, Assigned: Assignment{Cell: id}, Created: time.Unix(1, 0)}
}

func placed(ps []Placement) string {
	var out []string
	for _, p := range ps {
		s := string(p.Cell.ID)
		if p.Guest {
			s += " as a guest"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestPlacements(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cells []string
		want  string
	}{
		{"an active cell needs no fallback", []string{"A>B", "B"}, "A"},
		{"a compromised one goes on, and its fallback takes the device in", []string{"A!>B", "B"}, "A, B as a guest"},
		{"a retired one is left", []string{"A.>B", "B"}, "B as a guest"},
		{"a retired one without a fallback serves nobody", []string{"A."}, ""},
		{"a fallback that is not active is passed over", []string{"A!>BCD", "B!", "C.", "D"}, "A, D as a guest"},
		{"what a cell names itself goes before what its fallbacks name", []string{"A!>BC", "B!>D", "C", "D"}, "A, C as a guest"},
		{"fallbacks of fallbacks", []string{"A!>B", "B!>C", "C.>D", "D"}, "A, D as a guest"},
		{"a loop ends", []string{"A!>B", "B!>A"}, "A"},
		{"a loop that has a way out", []string{"A!>B", "B!>AC", "C!>BD", "D"}, "A, D as a guest"},
		{"a cell is not its own fallback", []string{"A!>A"}, "A"},
		{"a fallback that is gone", []string{"A!>XB", "B"}, "A, B as a guest"},
		{"a cell that is gone", []string{"B"}, ""},
	} {
		if got := placed(Placements(inCell("A"), cellsOf(tt.cells...), Taken{})); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestGuestsHaveTheLowerOfTwoLimits(t *testing.T) {
	for _, tt := range []struct{ own, granted, want int }{{0, 0, 0}, {0, 3, 3}, {5, 0, 5}, {5, 3, 3}, {2, 3, 2}} {
		cells := cellsOf("A!>B", "B")
		b := cells["B"]
		b.Guests.Connections, b.ForwardClientAddress = tt.granted, true
		cells["B"] = b
		d := inCell("A")
		d.Limits = Limits{Connections: tt.own, Traffic: 7}
		ps := Placements(d, cells, Taken{})
		if ps[0].Limits != d.Limits || ps[1].Limits != (Limits{Connections: tt.want, Traffic: 7}) {
			t.Errorf("own %d, granted %d: got %+v", tt.own, tt.granted, ps)
		}
		if ps[1].ForwardClientAddress {
			t.Error("the address of a guest goes where its own cell does not pass it")
		}
	}
}

func TestAMembersDevicesAreTakenInByAge(t *testing.T) {
	cells := cellsOf("A!>B", "B", "C!>B", "D")
	b := cells["B"]
	b.Guests.Devices = 2
	cells["B"] = b
	var all []Device
	for i, cell := range []CellID{"A", "C", "A", "D", "B", "A"} {
		d := inCell(cell)
		d.Created = time.Unix(int64(100-i), 0) // the last is the oldest
		all = append(all, d)
	}
	taken := func() (out []int) {
		for i, d := range all {
			if ps := Placements(d, cells, Taken{Devices: all}); len(ps) > 0 && ps[len(ps)-1].Guest {
				out = append(out, i)
			}
		}
		return out
	}
	if got := taken(); !slices.Equal(got, []int{2, 5}) {
		t.Errorf("taken in: %v, want the two oldest of the cells that are compromised", got)
	}
	all[5].State = DeviceRevoked
	if got := taken(); !slices.Equal(got, []int{1, 2, 5}) { // a revoked one's standing is not ok
		t.Errorf("taken in: %v, want another in the place of a revoked one", got)
	}
}

func TestGuestsWhoseTrafficIsUsedUpAreNotTakenIn(t *testing.T) {
	if got := placed(Placements(inCell("A"), cellsOf("A!>B", "B"), Taken{Spent: map[CellID]bool{"B": true}})); got != "A" {
		t.Errorf("got %q", got)
	}
	for _, tt := range []struct {
		limit, moved int64
		want         bool
	}{{0, 1 << 62, false}, {10, 9, false}, {10, 10, true}} {
		if got := (GuestLimits{Traffic: tt.limit}).ExhaustedBy(Traffic{Down: tt.moved}); got != tt.want {
			t.Errorf("%d of %d: got %v", tt.moved, tt.limit, got)
		}
	}
}

// Whatever cells name each other: it ends, at most one cell takes the device in,
// that one is active and can be reached, and nobody is a guest at home.
func TestPlacementsOfAnyCells(t *testing.T) {
	letters := []string{"A", "B", "C", "D", "E", "F"}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		var specs []string
		for _, l := range letters[:1+r.IntN(len(letters))] {
			to := []string{l + []string{"", "!", "."}[r.IntN(3)] + ">"}
			for range r.IntN(4) {
				to = append(to, letters[r.IntN(len(letters))])
			}
			specs = append(specs, strings.Join(to, ""))
		}
		cells, d := cellsOf(specs...), inCell("A")
		some := func() (out []EarlierPlace) {
			for i := range r.IntN(3) {
				out = append(out, EarlierPlace{Cell: CellID(letters[r.IntN(len(letters))]), Guest: r.IntN(2) == 0, NotAfter: time.Unix(int64(r.IntN(3)+i), 0)})
			}
			return out
		}
		now := whole(Placements(d, cells, Taken{}))
		d.Earlier = some()
		a := cells["A"]
		a.Earlier = some()
		cells["A"] = a
		all := Placements(d, cells, Taken{})
		bad := ""
		ps := slices.DeleteFunc(slices.Clone(all), func(p Placement) bool { return !p.Until.IsZero() })
		if whole(ps) != now {
			bad = "what was earlier changes what is"
		}
		seen := map[CellID]bool{}
		for i, p := range all {
			switch {
			case seen[p.Cell.ID]:
				bad = "twice in a cell"
			case p.Until.IsZero() != (i >= len(all)-len(ps)):
				bad = "earlier places do not come first"
			case !p.Until.IsZero() && (p.Offered() || p.Cell.State == CellRetired || p.Cell.ID == "A"):
				bad = "an earlier place where it cannot be"
			}
			seen[p.Cell.ID] = true
		}
		for i, p := range ps {
			switch {
			case p.Guest && (p.Cell.State != CellActive || p.Cell.ID == "A" || i != len(ps)-1 || !MayHost(p.Cell.ID, "A", cells)):
				bad = "a guest where it cannot be"
			case !p.Guest && (p.Cell.ID != "A" || i != 0 || p.Cell.State == CellRetired):
				bad = "at home where it cannot be"
			}
		}
		if own := cells["A"].State; own == CellActive && placed(ps) != "A" || own != CellActive && len(ps) == 0 && own != CellRetired {
			bad = "not where it is to be"
		}
		if bad != "" {
			t.Fatalf("seed %d, %v: %s: %s", seed, specs, placed(ps), bad)
		}
	}
}

func TestDeviceStanding(t *testing.T) {
	now := time.Now()
	ok, member := Device{State: DeviceActive}, Member{State: MemberActive}
	with := func(f func(*Device)) Device { d := ok; f(&d); return d }
	quota := with(func(d *Device) { d.Limits.Traffic = 100; d.Reset.Used = Traffic{Up: 50} })
	for i, tt := range []struct {
		d     Device
		m     MemberState
		moved int64
		at    time.Time
		want  Standing
	}{
		{ok, member.State, 1 << 60, now, StandingOK},
		{ok, MemberSuspended, 0, now, StandingSuspended},
		{ok, MemberArchived, 0, now, StandingGone},
		{ok, "", 0, now, StandingSuspended},
		{with(func(d *Device) { d.State = DeviceSuspended }), MemberActive, 0, now, StandingSuspended},
		{with(func(d *Device) { d.State = DeviceSuspended }), MemberArchived, 0, now, StandingGone},
		{with(func(d *Device) { d.State = DeviceRevoked }), MemberActive, 0, now, StandingGone},
		{with(func(d *Device) { d.Limits.Expires = now }), MemberActive, 0, now, StandingExpired},
		{with(func(d *Device) { d.Limits.Expires = now }), MemberActive, 0, time.Time{}, StandingOK},
		{with(func(d *Device) { d.Limits.Expires = now.Add(1) }), MemberActive, 0, now, StandingOK},
		{quota, MemberActive, 149, now, StandingOK},
		{quota, MemberActive, 150, now, StandingExhausted},
		{quota, MemberSuspended, 150, now, StandingSuspended},
	} {
		if got := DeviceStanding(tt.d, Member{State: tt.m}, Traffic{Up: tt.moved}, tt.at); got != tt.want {
			t.Errorf("case %d: got %s, want %s", i, got, tt.want)
		}
	}
}

// A core counts from its own start on and knows of no reset: it must not cut off
// who is within the limit.
func TestACoreIsToldWhatMayBeMovedInAll(t *testing.T) {
	d := Device{Limits: Limits{Traffic: 100}, Reset: TrafficReset{Used: Traffic{Up: 60, Down: 10}}}
	if got := d.ForCore(Placement{Limits: d.Limits}, time.Now()).Limits.Traffic; got != 170 {
		t.Errorf("got %d", got)
	}
	if got := d.ForCore(Placement{}, time.Now()).Limits.Traffic; got != 0 {
		t.Errorf("got %d without a limit", got)
	}
}

func ExampleFallbackOf() {
	host, ok := FallbackOf("A", cellsOf("A!>B", "B!>C", "C"))
	fmt.Println(host.ID, ok)
	// Output: C true
}
