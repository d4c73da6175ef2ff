package store_test

import (
	"fmt"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// crowd is a mesh of two cells with a core each that knows everything, and n
// devices of the first, five of each member.
func crowd(b *testing.B, n int) (*store.Store, mesh.CellID) {
	s := storetest.New(b)
	var all []store.Raw
	add := func(folder, id string, v any) {
		data, err := codec.Encode(v)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, store.Raw{Folder: folder, ID: id, Value: data})
	}
	home, host := mesh.NewCellID(), mesh.NewCellID()
	add("cells", string(home), mesh.Cell{ID: home, Name: "home", Suffix: "a.example.net", State: mesh.CellActive, Fallback: []mesh.CellID{host}})
	add("cells", string(host), mesh.Cell{ID: host, Name: "host", Suffix: "b.example.net", State: mesh.CellActive, Guests: mesh.GuestLimits{Devices: 4, Traffic: 1}})
	for i, cell := range []mesh.CellID{home, host} {
		id := mesh.NewCoreID()
		add("cores", string(id), mesh.Core{ID: id, Name: fmt.Sprint("core ", i), Cell: cell, State: mesh.CoreReady, EverReady: true})
	}
	var m mesh.MemberID
	for i := range n {
		if i%5 == 0 {
			m = mesh.NewMemberID()
			add("members", string(m), mesh.Member{ID: m, Name: string(m)[7:], State: mesh.MemberActive})
		}
		id := mesh.NewDeviceID()
		add("devices", string(id), mesh.Device{ID: id, Member: m, Name: fmt.Sprint(i), State: mesh.DeviceActive, Created: routeTime,
			Labels: []mesh.Label{{Label: mesh.NewLabel()}}, Assigned: mesh.Assignment{Cell: home}, Verifiers: mesh.NewVerifiers(id, "x")})
	}
	if err := s.Import(b.Context(), all, nil); err != nil {
		b.Fatal(err)
	}
	return s, home
}

// know has every core acknowledge everything up to now.
func know(b *testing.B, s *store.Store) {
	cores, at, err := s.Cores.List(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Update(b.Context(), func(tx *store.Tx) error {
		for id := range cores {
			node := "core/" + string(id)
			st := mesh.NodeStatus{Node: node, DevicesRev: int64(at)}
			if _, err := store.Get(tx, s.Status, node); err != nil {
				if err := store.Create(tx, s.Status, node, st); err != nil {
					return err
				}
				continue
			}
			if err := store.Update(tx, s.Status, node, func(v *mesh.NodeStatus) error { *v = st; return nil }); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

func setCell(b *testing.B, s *store.Store, id mesh.CellID, state mesh.CellState) {
	if _, err := s.Change(b.Context(), store.By{Actor: "test"}, "test", func(tx *store.Tx) error {
		return store.Update(tx, s.Cells, id, func(c *mesh.Cell) error { c.State = state; return nil })
	}); err != nil {
		b.Fatal(err)
	}
	know(b, s)
}

func reconciled(b *testing.B, s *store.Store, want int) {
	if n, err := s.ReconcileRoutes(b.Context(), routeTime); n != want || err != nil {
		b.Fatalf("%d changed, want %d, %v", n, want, err)
	}
}

// A pass over 20,000 devices that finds nothing to do.
func BenchmarkRoutesOf20000(b *testing.B) {
	s, _ := crowd(b, 20_000)
	know(b, s)
	b.ReportAllocs()
	for b.Loop() {
		reconciled(b, s, 0)
	}
}

// A cell of 2,000 devices is lost: 1,600 of them are taken in.
func BenchmarkACellOf2000IsLost(b *testing.B) {
	s, home := crowd(b, 2000)
	know(b, s)
	for b.Loop() {
		setCell(b, s, home, mesh.CellCompromised)
		reconciled(b, s, 1600)
		b.StopTimer()
		setCell(b, s, home, mesh.CellActive)
		reconciled(b, s, 1600)
		b.StartTimer()
	}
}
