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
		hops := Hops(d, cell, all, everyone)
		first[hops[0].ID]++
		gone := hops[rand.IntN(len(hops))]
		fewer := Hops(d, cell, slices.DeleteFunc(slices.Clone(all), func(c Core) bool { return string(c.ID) == gone.ID }), everyone)
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
	got := Hops(d, cell, append(all, other...), everyone)
	want := []Hop{{HopCore, string(all[3].ID)}, {HopCore, string(all[2].ID)}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want the assigned core, then the one other usable core of the cell: %v", got, want)
	}
	if got := Hops(d, cell, all, func(c Core) bool { return c.ID == all[2].ID }); len(got) != 1 || got[0].ID != string(all[2].ID) {
		t.Errorf("a core that does not know the device yet is named: %v", got)
	}
}

func TestRoutesOf(t *testing.T) {
	now := time.Now()
	c := Cell{ID: NewCellID(), Suffix: "a.example.net", State: CellActive}
	d := Device{ID: NewDeviceID(), State: DeviceActive, Labels: []Label{{Label: "new"}, {Label: "old", NotAfter: now.Add(time.Hour)}, {Label: "gone", NotAfter: now}}}
	p := Placement{Cell: c, Limits: Limits{Connections: 3}, ForwardClientAddress: true}
	got := RoutesOf(d, p, []Hop{{HopCore, "x"}}, now)
	if len(got) != 2 || got[0].Name != "new.a.example.net" || got[1].Name != "old.a.example.net" || !got[1].Until.Equal(now.Add(time.Hour)) {
		t.Errorf("got %+v", got)
	}
	if r := got[0]; r.Limits.Connections != 3 || !r.ForwardClientAddress || r.Device != d.ID || r.OfService() {
		t.Errorf("got %+v", r)
	}
	if got := RoutesOf(d, p, nil, now); len(got) != 0 {
		t.Errorf("without a core: got %v", got)
	}
}

func TestServiceRoute(t *testing.T) {
	servers := map[ServerID]Server{}
	for i, state := range []ServerState{ServerMember, ServerJoining, ServerMember, ServerRemoved} {
		id := ServerID(fmt.Sprint("s", 3-i))
		servers[id] = Server{ID: id, State: state}
	}
	r, ok := ServiceRoute("sub.example.net", servers)
	if want := []Hop{{HopMgmt, "s1"}, {HopMgmt, "s3"}}; !ok || !r.OfService() || !slices.Equal(r.Hops, want) {
		t.Errorf("got %+v, want hops %v", r, want)
	}
	if _, ok := ServiceRoute("", servers); ok {
		t.Error("a route without a name")
	}
	if _, ok := ServiceRoute("sub.example.net", nil); ok {
		t.Error("a route to nowhere")
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
