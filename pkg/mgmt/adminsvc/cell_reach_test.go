package adminsvc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// A cell is shown with what connected entries found about it, and status tells when
// clients do not get into it.
func TestACellOutOfReachIsShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cell := r.cell("north", "a.example.net")
	since := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	down := mesh.Reach{Fails: true, Since: since, Fault: mesh.FaultTimeout, Cores: 2}
	r.write("test", func(tx *store.Tx) error {
		for _, e := range []struct {
			name      string
			connected bool
			reach     mesh.Reach
		}{{"west", true, down}, {"east", true, mesh.Reach{Since: since, Cores: 1}}, {"away", false, down}} {
			v := mesh.Entry{ID: mesh.NewEntryID(), Name: e.name}
			node := string(mesh.RoleEntry) + "/" + string(v.ID)
			if err := store.Create(tx, r.Store.Entries, v.ID, v); err != nil {
				return err
			}
			if err := store.Create(tx, r.Store.Status, node, mesh.NodeStatus{Node: node, Connected: e.connected}); err != nil {
				return err
			}
			reach := mesh.EntryReach{Entry: v.ID, Cells: map[mesh.CellID]mesh.Reach{cell.ID: e.reach}}
			if err := store.Create(tx, r.Store.Reach, v.ID, reach); err != nil {
				return err
			}
		}
		return store.Create(tx, r.Store.CellWatch, cell.ID, mesh.CellWatch{Cell: cell.ID, Since: since, Entries: "no entry", Traffic: "no traffic"})
	})
	v, err := r.cellGet(r.ctx(), admin.Ref{Ref: "north"})
	if err != nil || len(v.Reach) != 2 || v.Reach[0].Name != "east" || v.Reach[0].Fails || v.Reach[1].Reach != down {
		t.Errorf("reach %+v, %v", v.Reach, err)
	}
	if v.Unreachable == nil || v.Unreachable.Cause() != "no entry; no traffic" {
		t.Errorf("evidence %+v", v.Unreachable)
	}
	st, err := r.statusGet(r.ctx(), admin.None{})
	if err != nil || !slices.ContainsFunc(st.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "clients do not get into cell north since 2026-11-30T08:00:00Z: no entry; no traffic")
	}) {
		t.Errorf("warnings %q, %v", st.Warnings, err)
	}
}
