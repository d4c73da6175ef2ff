package adminsvc

import (
	"context"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
)

// kubeLines are the clusters at one glance, by name.
func (s *Service) kubeLines(ctx context.Context) ([]admin.KubeLine, error) {
	clusters, _, err := s.Store.Kubes.List(ctx)
	if err != nil {
		return nil, err
	}
	states, _, err := s.Store.KubeStates.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []admin.KubeLine
	for id, c := range clusters {
		st := states[id]
		l := admin.KubeLine{Name: c.Name, Contact: st.Contact, Wanted: c.Wanted.Number, Release: st.Rollout.Release, Phase: st.Rollout.Phase, Desired: st.Rollout.Desired, Ready: st.Counted().Ready}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b admin.KubeLine) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
