package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func coreNoun() noun[admin.CoreView] {
	name := func(c admin.CoreView) string { return c.Name }
	return noun[admin.CoreView]{
		one: "core", many: "cores",
		empty: "bring one in with `meshctl admin token create --role core --member MEMBER --cell CELL`",
		id:    func(c admin.CoreView) string { return string(c.ID) },
		label: name,
		refs:  refs(admin.CoreList, plain, name),
		columns: []column[admin.CoreView]{
			text("NAME", name),
			text("STATE", func(c admin.CoreView) string { return string(c.State) }),
			text("MEMBER", func(c admin.CoreView) string { return c.MemberName }),
			text("CELL", func(c admin.CoreView) string { return c.CellName }),
			text("ADDRESSES", func(c admin.CoreView) string { return listOf(c.Addresses) }),
			{"SEEN", func(c admin.CoreView, now time.Time) string { return seen(c.Status, now) }},
			text("VERSION", func(c admin.CoreView) string { return c.Version }),
			text("ID", func(c admin.CoreView) string { return string(c.ID) }),
		},
		fields: coreFields,
	}
}

func coreFields(c admin.CoreView, now time.Time) []field {
	return append([]field{
		{"Name", c.Name},
		{"Id", string(c.ID)},
		{"State", string(c.State)},
		{"Reason", c.Reason},
		{"Banned", onlyYes(c.Banned)},
		{"Member", named(c.MemberName, string(c.Member))},
		{"Cell", named(c.CellName, string(c.Cell))},
		{"Addresses", listOf(c.Addresses)},
		{"Egress", c.Egress.Kind},
		{"Forwards to", c.Egress.Forward},
		{"Allows", listOf(c.Egress.Allow)},
		{"Version", c.Version},
		{"Joined", at(c.Joined, now)},
		{"Certificate ends", at(c.CertEnds, now)},
		{"Moved", moved(c.Used)},
	}, statusFields(c.Status, now)...)
}

// moved is what went up and down.
func moved(t mesh.Traffic) string {
	if t == (mesh.Traffic{}) {
		return ""
	}
	return fmt.Sprintf("%s up, %s down, %d connections", size(t.Up), size(t.Down), t.Connections)
}

// inAll is what went either way.
func inAll(t mesh.Traffic) string {
	if t == (mesh.Traffic{}) {
		return ""
	}
	return size(t.Plus(mesh.Traffic{Up: t.Down}).Up)
}

// onlyYes leaves out what is not so.
func onlyYes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// seen is how long ago a node was last heard of.
func seen(st *mesh.NodeStatus, now time.Time) string {
	switch {
	case st == nil:
		return "never"
	case st.Connected:
		return "now"
	}
	return age(st.LastSeen, now)
}

// statusFields are what a node's own reports say.
func statusFields(st *mesh.NodeStatus, now time.Time) []field {
	if st == nil {
		return []field{{"Connected", "never"}}
	}
	out := []field{
		{"Connected", yesNo(st.Connected)},
		{"Last seen", at(st.LastSeen, now)},
		{"Failure", st.Failure},
	}
	if st.Observed.IsValid() {
		out = append(out, field{"Observed address", st.Observed.String()})
	}
	if st.ClockOff.Abs() >= time.Second {
		out = append(out, field{"Clock off by", st.ClockOff.Round(time.Second).String()})
	}
	return append(out, field{"Streams", count(int(st.Streams))})
}

func newAdminCore(a *adminCLI) *cobra.Command {
	n := coreNoun()
	drain := func(d deed, to bool) *cobra.Command {
		return newDeed(a, n, d, admin.CoreSet, func(ref string) admin.CoreSetRequest {
			return admin.CoreSetRequest{Ref: ref, Drain: &to}
		})
	}
	return group("core", "Exit nodes of members",
		newList(a, n, admin.CoreList, 0, plain),
		newShow(a, n, admin.CoreGet),
		newCoreSet(a, n),
		drain(deed{use: "drain", short: "Send no new connections to a core; open ones finish", done: "draining"}, true),
		drain(deed{use: "resume", short: "Use a drained core again", done: "resumed"}, false),
		newRevoke(a, n, admin.CoreRevoke, "Its connections are cut and it has to join anew; this cannot be undone."),
		newBan(a, n, admin.CoreRevoke, "Its connections are cut, and its owner can bring no core until its record is removed."),
		newRemove(a, n, admin.CoreRemove, "Its record is deleted."),
	)
}

func newCoreSet(a *adminCLI, n noun[admin.CoreView]) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "set CORE", Short: "Change a core's name", Args: takes("CORE"), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange("name"); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.CoreSet, admin.CoreSetRequest{Ref: args[0], Name: &name})
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	return c
}
