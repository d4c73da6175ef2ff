package mgmt

import (
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// available says whether any one server can fail now with the rest still a
// quorum, and why or why not.
func available(servers []admin.ServerLine) (bool, string) {
	votes, here := 0, 0
	var away, joining []string
	for _, s := range servers {
		switch {
		case s.State == mesh.ServerRemoved:
		case !s.Votes:
			joining = append(joining, s.Name)
		case s.Here:
			votes++
			here++
		default:
			votes++
			away = append(away, s.Name)
		}
	}
	quorum := votes/2 + 1
	switch {
	case votes == 0 || votes == 1 && len(joining) == 0:
		return false, "one server"
	case votes < 3:
		why := fmt.Sprintf("%s: the loss of one stops all changes", some(votes))
		if len(joining) > 0 {
			why += "; joining: " + strings.Join(joining, ", ")
		}
		return false, why
	case here-1 < quorum:
		return false, fmt.Sprintf("%d of %d servers are there; away: %s", here, votes, strings.Join(away, ", "))
	}
	return true, fmt.Sprintf("%d of %d servers are there", here, votes)
}

func some(n int) string {
	if n == 1 {
		return "one server"
	}
	return fmt.Sprintf("%d servers", n)
}
