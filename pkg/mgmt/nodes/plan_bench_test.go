package nodes

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// The tables of 50,000 devices in ten cells, of which none is lost, or half.
func BenchmarkTablesOf50000(b *testing.B) {
	for name, state := range map[string]mesh.CellState{"all well": mesh.CellActive, "half lost": mesh.CellCompromised} {
		b.Run(name, func(b *testing.B) {
			p := &store.People{Members: map[mesh.MemberID]store.Item[mesh.Member]{}, Devices: map[mesh.DeviceID]store.Item[mesh.Device]{},
				Cells: map[mesh.CellID]store.Item[mesh.Cell]{}, Spent: map[string]store.Item[mesh.Spent]{}}
			cell := func(i int) mesh.CellID { return mesh.CellID(fmt.Sprint("cell", i)) }
			for i := range 10 {
				c := mesh.Cell{ID: cell(i), Suffix: mesh.ServerName(fmt.Sprint("c", i, ".example.net")), State: mesh.CellActive, Guests: mesh.GuestLimits{Devices: 5}}
				if i%2 == 0 {
					c.State, c.Fallback = state, []mesh.CellID{cell(i + 1)}
				}
				p.Cells[c.ID] = store.Item[mesh.Cell]{Key: string(c.ID), Value: c, Rev: 1}
			}
			for i := range 50_000 {
				m := mesh.Member{ID: mesh.MemberID(fmt.Sprint("member", i/5)), State: mesh.MemberActive}
				p.Members[m.ID] = store.Item[mesh.Member]{Key: string(m.ID), Value: m, Rev: 1}
				d := mesh.Device{ID: mesh.NewDeviceID(), Member: m.ID, State: mesh.DeviceActive, Labels: []mesh.Label{{Label: mesh.NewLabel()}},
					HiddenLabel: mesh.NewLabel(), Assigned: mesh.Assignment{Cell: cell(i % 10)}}
				p.Devices[d.ID] = store.Item[mesh.Device]{Key: string(d.ID), Value: d, Rev: 1}
			}
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				if got := new(plan).nextTables(now, p, 2); len(got) != 10 {
					b.Fatal(len(got))
				}
			}
		})
	}
}
