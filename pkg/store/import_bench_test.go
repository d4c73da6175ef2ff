package store_test

import (
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// bigMesh is 10,000 devices of 3,000 members behind 200 cores in 20 cells.
func bigMesh(b *testing.B) []store.Raw {
	var out []store.Raw
	add := func(folder, id string, v any) {
		data, err := codec.Encode(v)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, store.Raw{Folder: folder, ID: id, Value: data})
	}
	now := time.Now().UTC()
	var members []mesh.Member
	var cells []mesh.Cell
	for i := range 3000 {
		m := mesh.Member{ID: mesh.NewMemberID(), Name: fmt.Sprint("member ", i), State: mesh.MemberActive, Created: now}
		members = append(members, m)
		add("members", string(m.ID), m)
	}
	for i := range 20 {
		c := mesh.Cell{ID: mesh.NewCellID(), Name: fmt.Sprint("cell ", i), Suffix: mesh.ServerName(fmt.Sprintf("c%d.example.net", i)), State: mesh.CellActive}
		cells = append(cells, c)
		add("cells", string(c.ID), c)
	}
	for i := range 200 {
		c := mesh.Core{ID: mesh.NewCoreID(), Name: fmt.Sprint("core ", i), Cell: cells[i%20].ID, State: mesh.CoreReady, EverReady: true,
			Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:8444")}}
		add("cores", string(c.ID), c)
	}
	for i := range 10_000 {
		d := mesh.Device{ID: mesh.NewDeviceID(), Member: members[i%3000].ID, Name: fmt.Sprint("device ", i),
			State: mesh.DeviceActive, Labels: []mesh.Label{{Label: mesh.NewLabel()}}, HiddenLabel: mesh.NewLabel(),
			Secret: mesh.Sealed(mesh.SealedPrefix + mesh.NewSecret(72).Reveal()), Verifiers: mesh.Verifiers{HTTP: mesh.NewSecret(32).Reveal()},
			Assigned: mesh.Assignment{Cell: cells[i%20].ID}, Created: now}
		add("devices", string(d.ID), d)
	}
	return out
}

func BenchmarkImportOf10000(b *testing.B) {
	state := bigMesh(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		s := storetest.New(b)
		b.StartTimer()
		if err := s.Import(b.Context(), state, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOf10000(b *testing.B) {
	s := storetest.New(b)
	if err := s.Import(b.Context(), bigMesh(b), nil); err != nil {
		b.Fatal(err)
	}
	b.Run("export", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if all, _, err := s.Export(b.Context(), 0); err != nil || len(all) != 13_220 {
				b.Fatal(len(all), err)
			}
		}
	})
	b.Run("changed", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.ChangedSince(b.Context(), 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			n, err := s.Snapshot(b.Context(), io.Discard)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(n)
		}
	})
	b.Run("routes are right", func(b *testing.B) {
		for b.Loop() {
			if n, err := s.ReconcileRoutes(b.Context(), time.Now()); n != 0 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("targets", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.ReconcileTargets(b.Context(), "mesh-a", "relay/1"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
