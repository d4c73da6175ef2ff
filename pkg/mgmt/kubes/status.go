package kubes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Problems are what somebody should look at, in words.
func (s *Service) Problems() []string {
	s.begin()
	now, states := s.now(), s.states.All()
	var out []string
	clusters := slices.Collect(maps.Values(s.kubes.All()))
	slices.SortFunc(clusters, func(a, b mesh.KubeCluster) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range clusters {
		for _, p := range Problems(c, states[c.ID], now) {
			out = append(out, "cluster "+c.Name+": "+p)
		}
	}
	return out
}

// Problems are what is wrong with one cluster.
func Problems(c mesh.KubeCluster, st mesh.KubeState, now time.Time) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !st.Well() {
		say("not well reached since %s: %s", st.Since.UTC().Format(time.RFC3339), st.Reached())
	}
	if st.Parked != 0 {
		say("release %d failed and is parked: %s", st.Parked, firstLine(st.ParkedWhy))
	}
	if st.Lacking != "" {
		say("%s", st.Lacking)
	}
	for _, k := range st.Conflicts {
		say("%s: %s is kept otherwise by %s", k.Object, k.Field, k.Manager)
	}
	for _, p := range st.Problems {
		say("%s", p)
	}
	if st.Policy == mesh.PolicyOpen {
		say("its network policy is not enforced")
	}
	for _, a := range st.Down() {
		say("address %s does not lead to entries: %s", a.HostPort(), a.Why)
	}
	if left := c.Ends.Sub(now); !c.Ends.IsZero() && left < mesh.KubeCredentialSoon {
		say("its credential ends at %s", c.Ends.UTC().Format(time.RFC3339))
	}
	return out
}
