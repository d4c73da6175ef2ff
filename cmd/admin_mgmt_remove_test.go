package cmd

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestWhatIsLeftWhenAServerIsRemoved(t *testing.T) {
	line := func(name string, state mesh.ServerState, here bool) admin.ServerLine {
		return admin.ServerLine{Server: mesh.Server{ID: mesh.ServerID("mgmt-" + name), Name: name, State: state}, Votes: state != mesh.ServerRemoved, Here: here}
	}
	on, away, gone := func(n string) admin.ServerLine { return line(n, mesh.ServerMember, true) },
		func(n string) admin.ServerLine { return line(n, mesh.ServerMember, false) },
		func(n string) admin.ServerLine { return line(n, mesh.ServerRemoved, false) }
	for name, c := range map[string]struct {
		all   []admin.ServerLine
		ref   string
		want  string
		whole bool
	}{
		"one, the third was removed": {[]admin.ServerLine{on("a"), on("b"), gone("c")}, "b", "This leaves one server: not highly available.", false},
		"named by its id":            {[]admin.ServerLine{on("a"), on("b")}, "mgmt-b", "This leaves one server: not highly available.", false},
		"two, one of them away": {[]admin.ServerLine{on("a"), on("b"), away("c")}, "b",
			"This leaves 2 servers: not highly available, the loss of one stops all changes; away: c.", false},
		"three of four":                {[]admin.ServerLine{on("a"), on("b"), on("c"), away("d")}, "d", "This leaves 3 servers.", true},
		"three of four, one left away": {[]admin.ServerLine{on("a"), on("b"), on("c"), away("d")}, "a", "This leaves 3 servers; away: d.", false},
	} {
		if got, whole := withoutServer(c.all, c.ref); got != c.want || whole != c.whole {
			t.Errorf("%s: %q, %v", name, got, whole)
		}
	}
}
