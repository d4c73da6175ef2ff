package adminsvc

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestStatusShowsWhatNotAllNodesRun(t *testing.T) {
	r := newRig(t)
	c := r.cell("north", "a.example.net")
	for _, x := range []mesh.Rollout{
		{Group: mesh.EntriesGroup, Running: mesh.NodeConfig{Revision: 7}, Trial: mesh.NodeConfig{Revision: 8}, Canary: "entry/x"},
		{Group: string(c.ID), Running: mesh.NodeConfig{Revision: 3}, Parked: mesh.NodeConfig{Revision: 4}, Reason: "core/y refused it: cannot bind"},
		{Group: "quiet", Running: mesh.NodeConfig{Revision: 1}},
	} {
		r.write("test", func(tx *store.Tx) error { return store.Create(tx, r.Store.Rollouts, x.Group, x) })
	}
	st := must(r.statusGet(r.ctx(), admin.None{}))(t)
	names := []string{}
	for _, x := range st.Rollouts {
		names = append(names, x.GroupName)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"cores of cell north", "entries"}) {
		t.Errorf("roll-outs of %q", names)
	}
	const want = "configuration 4 of the cores of cell north is parked, and they go on with 3: core/y refused it: cannot bind"
	if all := strings.Join(st.Warnings, "\n"); !strings.Contains(all, want) || strings.Contains(all, "entry/x") {
		t.Errorf("warnings:\n%s\nwant %q", all, want)
	}
}
