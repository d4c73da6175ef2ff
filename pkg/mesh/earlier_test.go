package mesh

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	movedAt = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	graceAt = movedAt.Add(DefaultLabelOverlap)
)

// whole is placed, with what was before in brackets.
func whole(ps []Placement) string {
	var out []string
	for _, p := range ps {
		s := placed([]Placement{p})
		if !p.Until.IsZero() {
			s = "(" + s + ")"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestWhereADeviceWasServedItStaysForAWhile(t *testing.T) {
	move := func(to CellID, at time.Time) func(*Device, map[CellID]Cell) {
		return func(d *Device, cells map[CellID]Cell) {
			now := slices.DeleteFunc(Placements(*d, cells, Taken{}), func(p Placement) bool { return p.Ended(at) })
			d.Move(Assignment{Cell: to}, now, at.Add(DefaultLabelOverlap))
		}
	}
	set := func(id CellID, s CellState) func(*Device, map[CellID]Cell) {
		return func(_ *Device, cells map[CellID]Cell) {
			c := cells[id]
			if s == CellActive {
				c.Restore(cells, graceAt)
			}
			c.State = s
			cells[id] = c
		}
	}
	for _, tt := range []struct {
		name  string
		cells []string
		do    []func(*Device, map[CellID]Cell)
		want  string
	}{
		{"a move", []string{"A", "N"}, []func(*Device, map[CellID]Cell){move("N", movedAt)}, "(A), N"},
		{"within a cell nothing is left", []string{"A"}, []func(*Device, map[CellID]Cell){move("A", movedAt)}, "A"},
		{"and back", []string{"A", "N"}, []func(*Device, map[CellID]Cell){move("N", movedAt), move("A", movedAt)}, "(N), A"},
		{"from a compromised cell, both it and its fallback stay", []string{"A!>B", "B", "N"}, []func(*Device, map[CellID]Cell){move("N", movedAt)}, "(A), (B as a guest), N"},
		{"from a retired one, the fallback does", []string{"A.>B", "B", "N"}, []func(*Device, map[CellID]Cell){move("N", movedAt)}, "(B as a guest), N"},
		{"into the fallback for good", []string{"A!>B", "B"}, []func(*Device, map[CellID]Cell){move("B", movedAt)}, "(A), B"},
		{"a cell that is retired after the move ends", []string{"A!>B", "B", "N"}, []func(*Device, map[CellID]Cell){move("N", movedAt), set("A", CellRetired)}, "(B as a guest), N"},
		{"one that is compromised goes on", []string{"A", "N"}, []func(*Device, map[CellID]Cell){move("N", movedAt), set("A", CellCompromised)}, "(A), N"},
		{"a fallback that is lost too takes in nobody", []string{"A.>B", "B", "N"}, []func(*Device, map[CellID]Cell){move("N", movedAt), set("B", CellCompromised)}, "N"},
		{"a cell that is restored", []string{"A!>B", "B"}, []func(*Device, map[CellID]Cell){set("A", CellActive)}, "(B as a guest), A"},
		{"restored, and lost again", []string{"A!>B", "B"}, []func(*Device, map[CellID]Cell){set("A", CellActive), set("A", CellCompromised)}, "A, B as a guest"},
		{"restored, and then moved", []string{"A!>B", "B", "N"}, []func(*Device, map[CellID]Cell){set("A", CellActive), move("N", movedAt)}, "(B as a guest), (A), N"},
		{"no more than two are kept, the last", []string{"A", "B", "C", "N"}, []func(*Device, map[CellID]Cell){
			move("B", movedAt), move("C", movedAt.Add(time.Hour)), move("N", movedAt.Add(2*time.Hour)),
		}, "(B), (C), N"},
		{"what has ended is not kept longer", []string{"A", "B", "N"}, []func(*Device, map[CellID]Cell){move("B", movedAt), move("N", graceAt)}, "(B), N"},
		{"who is a guest where it was at home is a guest", []string{"A", "N!>A"}, []func(*Device, map[CellID]Cell){move("N", movedAt)}, "N, A as a guest"},
	} {
		cells, d := cellsOf(tt.cells...), inCell("A")
		for _, do := range tt.do {
			do(&d, cells)
		}
		if got := whole(Placements(d, cells, Taken{})); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Moving on does not make anything last longer.
func TestAnEarlierPlaceEndsWhenItWasTo(t *testing.T) {
	cells, d := cellsOf("A", "B", "C"), inCell("A")
	d.Labels = []Label{{Label: "l"}, {Label: "k", NotAfter: movedAt.Add(time.Hour)}}
	d.Move(Assignment{Cell: "B"}, Placements(d, cells, Taken{}), graceAt)
	d.Move(Assignment{Cell: "C"}, Placements(d, cells, Taken{}), graceAt.Add(time.Hour))
	ps := Placements(d, cells, Taken{})
	if whole(ps) != "(A), (B), C" || !ps[0].Until.Equal(graceAt) || !ps[1].Until.Equal(graceAt.Add(time.Hour)) {
		t.Fatalf("got %+v", ps)
	}
	if ps[0].Offered() || !ps[2].Offered() || !ps[0].Ended(graceAt) || ps[0].Ended(graceAt.Add(-1)) || ps[0].Ended(time.Time{}) {
		t.Errorf("got %+v", ps)
	}
	hops := []Hop{{HopCore, "c"}}
	if got := RoutesOf(d, ps[0], hops, movedAt); len(got) != 2 || !got[0].Until.Equal(graceAt) || !got[1].Until.Equal(movedAt.Add(time.Hour)) {
		t.Errorf("routes %+v", got)
	}
	if got := RoutesOf(d, ps[0], hops, graceAt); len(got) != 0 {
		t.Errorf("routes %+v of what has ended", got)
	}
	d, next := d.Upkeep(Config{}, graceAt)
	if len(d.Earlier) != 1 || d.Earlier[0].Cell != "B" || !next.Equal(graceAt.Add(time.Hour)) {
		t.Errorf("kept %+v, next at %v", d.Earlier, next)
	}
	if d, _ = d.Upkeep(Config{}, graceAt.Add(time.Hour)); d.Earlier != nil {
		t.Errorf("kept %+v", d.Earlier)
	}
	c := Cell{State: CellRetired, Earlier: []EarlierPlace{{Cell: "B", NotAfter: graceAt}}}
	if kept, next := c.Upkeep(Config{}, movedAt); len(kept.Earlier) != 1 || !next.Equal(graceAt) {
		t.Errorf("kept %+v, next at %v", kept.Earlier, next)
	}
	if kept, _ := c.Upkeep(Config{}, graceAt); kept.Earlier != nil {
		t.Errorf("kept %+v", kept.Earlier)
	}
}

// Who was a guest takes up room, whether its cell is well again or it was moved, and
// keeps to what guests may use.
func TestGuestsOfEarlierCount(t *testing.T) {
	cells := cellsOf("A!>B", "B", "C!>B", "N")
	b := cells["B"]
	b.Guests, b.ForwardClientAddress = GuestLimits{Devices: 2, Connections: 3}, true
	cells["B"] = b
	lost := movedAt.Add(-time.Hour)
	a := cells["A"]
	a.Compromised = lost
	cells["A"] = a
	moved, back, late := inCell("A"), inCell("A"), inCell("C")
	back.Created, late.Created = time.Unix(2, 0), time.Unix(3, 0)
	moved.Move(Assignment{Cell: "N"}, Placements(moved, cells, Taken{}), graceAt)
	a.Restore(cells, graceAt)
	cells["A"] = a
	all := func() Taken { return Taken{Devices: []Device{late, back, moved}} }
	for _, d := range []Device{moved, back} {
		ps := HostsOf(d, cells)
		if len(ps) != 1 || ps[0].Limits.Connections != 3 || ps[0].ForwardClientAddress || !ps[0].Lost.Equal(lost) {
			t.Errorf("got %+v", ps)
		}
		if since, guest, ok := GuestIn(d, "B", cells); !ok || !guest || !since.Equal(lost) {
			t.Errorf("guest %v since %v, %v", guest, since, ok)
		}
		if len(HostsOf(d, cells)) != 1 || !strings.Contains(whole(Placements(d, cells, all())), "(B as a guest)") {
			t.Errorf("got %s", whole(Placements(d, cells, all())))
		}
	}
	if got := whole(Placements(late, cells, all())); got != "C" {
		t.Errorf("got %q: there is no room", got)
	}
	moved, _ = moved.Upkeep(Config{}, graceAt)
	if got := whole(Placements(late, cells, all())); got != "C, B as a guest" {
		t.Errorf("got %q: there is room", got)
	}
	if got := whole(Placements(back, cells, Taken{Spent: map[CellID]bool{"B": true}})); got != "A" {
		t.Errorf("got %q: what guests may move is used up", got)
	}
}
