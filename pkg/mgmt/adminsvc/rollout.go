package adminsvc

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// rollouts are the configurations that not all nodes run: on trial or parked.
func (s *Service) rollouts(ctx context.Context, cells map[mesh.CellID]mesh.Cell) ([]admin.RolloutView, error) {
	all, _, err := s.Store.Rollouts.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []admin.RolloutView
	for _, group := range slices.Sorted(maps.Keys(all)) {
		r := all[group]
		if r.Trial.Revision == 0 && r.Parked.Revision == 0 {
			continue
		}
		v := admin.RolloutView{Rollout: r, GroupName: "entries"}
		if group != mesh.EntriesGroup {
			v.GroupName = "cores of cell " + cells[mesh.CellID(group)].Name
		}
		out = append(out, v)
	}
	return out, nil
}

func rolloutWarnings(all []admin.RolloutView) []string {
	var out []string
	for _, r := range all {
		if r.Parked.Revision != 0 {
			out = append(out, fmt.Sprintf("configuration %d of the %s is parked, and they go on with %d: %s", r.Parked.Revision, r.GroupName, r.Running.Revision, r.Reason))
		}
	}
	return out
}
