package mesh

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func cores(n int, cell CellID) []Core {
	out := make([]Core, n)
	for i := range out {
		out[i] = Core{ID: NewCoreID(), Cell: cell, EverReady: true}
	}
	return out
}

func everyone(Core) bool { return true }

func TestHopsSpreadEvenlyAndStayPut(t *testing.T) {
	cell := NewCellID()
	all := cores(5, cell)
	first := make(map[string]int)
	const n = 5000
	for range n {
		d := Device{ID: NewDeviceID(), Assigned: Assignment{Cell: cell}}
		hops := Hops(d, all, everyone)
		first[hops[0].ID]++
		gone := hops[rand.IntN(len(hops))]
		fewer := Hops(d, slices.DeleteFunc(slices.Clone(all), func(c Core) bool { return string(c.ID) == gone.ID }), everyone)
		if want := slices.DeleteFunc(slices.Clone(hops), func(h Hop) bool { return h == gone }); !slices.Equal(fewer, want) {
			t.Fatalf("without %v: got %v, want %v", gone, fewer, want)
		}
	}
	for id, got := range first {
		if got < n/5*8/10 || got > n/5*12/10 {
			t.Errorf("core %s is first for %d of %d devices, want about %d", id, got, n, n/5)
		}
	}
}

func TestHopsName(t *testing.T) {
	cell := NewCellID()
	all := cores(4, cell)
	all[0].EverReady = false
	all[1].Revoked = true
	other := cores(1, NewCellID())
	d := Device{ID: NewDeviceID(), Assigned: Assignment{Cell: cell, Core: all[3].ID}}
	got := Hops(d, append(all, other...), everyone)
	want := []Hop{{HopCore, string(all[3].ID)}, {HopCore, string(all[2].ID)}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want the assigned core, then the one other usable core of the cell: %v", got, want)
	}
	if got := Hops(d, all, func(c Core) bool { return c.ID == all[2].ID }); len(got) != 1 || got[0].ID != string(all[2].ID) {
		t.Errorf("a core that does not know the device yet is named: %v", got)
	}
}

func TestRoutesOf(t *testing.T) {
	now := time.Now()
	m, c := Member{State: MemberActive}, Cell{ID: NewCellID(), Suffix: "a.example.net", State: CellActive}
	d := Device{ID: NewDeviceID(), State: DeviceActive, Labels: []Label{{Label: "new"}, {Label: "old", NotAfter: now.Add(time.Hour)}, {Label: "gone", NotAfter: now}}}
	hops := []Hop{{HopCore, "x"}}
	names := func(d Device, m Member, c Cell, hops []Hop) string {
		var out []ServerName
		for _, r := range RoutesOf(d, m, c, hops, now) {
			out = append(out, r.Name)
		}
		return fmt.Sprint(out)
	}
	if got := names(d, m, c, hops); got != "[new.a.example.net old.a.example.net]" {
		t.Errorf("got %s", got)
	}
	expired := d
	expired.Limits.Expires = now
	suspended := d
	suspended.State = DeviceSuspended
	retired := c
	retired.State = CellRetired
	for why, got := range map[string]string{
		"no core":          names(d, m, c, nil),
		"expired":          names(expired, m, c, hops),
		"suspended":        names(suspended, m, c, hops),
		"member suspended": names(d, Member{State: MemberSuspended}, c, hops),
		"cell retired":     names(d, m, retired, hops),
	} {
		if got != "[]" {
			t.Errorf("%s: got %s, want no route", why, got)
		}
	}
}

func TestVerifiers(t *testing.T) {
	id, secret := NewDeviceID(), NewSecret(32)
	v := NewVerifiers(id, secret)
	if !v.CheckHTTP(id, secret) {
		t.Error("the right secret was refused")
	}
	if v.CheckHTTP(id, NewSecret(32)) || v.CheckHTTP(NewDeviceID(), secret) || (Verifiers{}).CheckHTTP(id, "") {
		t.Error("a wrong secret or device passed")
	}
}
