package kubes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// CredentialSoon is how long before its end a credential is to be replaced.
const CredentialSoon = 7 * 24 * time.Hour

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
	if !Well(st) {
		say("not well reached since %s: %s", st.Since.UTC().Format(time.RFC3339), Contact(st))
	}
	if st.Parked != 0 {
		say("release %d failed and is parked: %s", st.Parked, firstLine(st.ParkedWhy))
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
	for _, a := range Down(st) {
		say("address %s does not lead to entries: %s", a.HostPort(), a.Why)
	}
	if left := c.Ends.Sub(now); !c.Ends.IsZero() && left < CredentialSoon {
		say("its credential ends at %s", c.Ends.UTC().Format(time.RFC3339))
	}
	return out
}

// Well says whether the API of a cluster answers, or has not been asked yet.
func Well(st mesh.KubeState) bool { return st.Contact == "" || st.Contact == starting }

// Contact is how the API is reached, with its own words.
func Contact(st mesh.KubeState) string {
	if st.Detail == "" {
		return st.Contact
	}
	return st.Contact + ": " + st.Detail
}

// Down are the addresses that were tried and lead to no entry.
func Down(st mesh.KubeState) []mesh.KubeAddress {
	return slices.DeleteFunc(slices.Clone(st.Addresses), func(a mesh.KubeAddress) bool { return a.Up || a.Tried.IsZero() })
}
