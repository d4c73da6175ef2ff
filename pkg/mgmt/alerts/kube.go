package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// kubeConditions are what is wrong in the clusters that entries run in, as whoever
// looks after them has written it.
func (l *look) kubeConditions(now time.Time) (out []alert.Condition) {
	for id, c := range l.kubes.All() {
		st, _ := l.kubeStates.Get(id)
		add := func(rule, cause string) {
			out = append(out, alert.Condition{Rule: rule, Object: "kube/" + string(id), Cause: cause})
		}
		if !st.Well() {
			add(alert.KubeUnreachable, "since "+st.Since.UTC().Format(time.RFC3339)+": "+st.Reached())
		}
		if st.Parked != 0 {
			why, _, _ := strings.Cut(st.ParkedWhy, "\n")
			add(alert.EntriesFailed, fmt.Sprintf("release %d: %s", st.Parked, why))
		}
		if st.Lacking != "" {
			add(alert.EntriesLacking, st.Lacking)
		}
		if len(st.Conflicts) > 0 {
			add(alert.KubeConflict, conflicts(st.Conflicts))
		}
		if down := st.Down(); len(down) > 0 {
			add(alert.EntryAddress, addresses(down))
		}
		if st.Policy == mesh.PolicyOpen {
			add(alert.PolicyOpen, "a pod has reached what its network policy forbids")
		}
		if !c.Ends.IsZero() && c.Ends.Sub(now) < mesh.KubeCredentialSoon {
			add(alert.KubeCredential, "it ends at "+c.Ends.UTC().Format(time.RFC3339))
			if !now.Before(c.Ends) {
				out[len(out)-1].Severity = mesh.Critical
			}
		}
	}
	return out
}

// namedAtMost is how many of a kind a cause names.
const namedAtMost = 5

func conflicts(list []mesh.KubeConflict) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%s of %s is kept by %s", c.Field, c.Object, c.Manager))
	}
	return some(parts)
}

func addresses(list []mesh.KubeAddress) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, a.HostPort())
	}
	return some(parts)
}

func some(parts []string) string {
	out := strings.Join(parts[:min(len(parts), namedAtMost)], ", ")
	if more := len(parts) - namedAtMost; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
