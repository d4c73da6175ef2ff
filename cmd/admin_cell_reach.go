package cmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// reachOf is "east yes, west no (timeout, 3m)".
func reachOf(all []admin.CellReach, now time.Time) string {
	var out []string
	for _, r := range all {
		text := r.Name + " yes"
		if r.Fails {
			text = fmt.Sprintf("%s no (%s, %s)", r.Name, r.Fault, age(r.Since, now))
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// outOfReach is since when and why clients do not get into a cell.
func outOfReach(w *mesh.CellWatch, now time.Time) string {
	if w == nil {
		return ""
	}
	return "since " + at(w.Since, now) + ": " + w.Cause()
}
