package cmd

import (
	"fmt"
	"strings"
	"time"

	"context"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func routeNoun() noun[admin.RouteView] {
	name := func(r admin.RouteView) string { return string(r.Name) }
	return noun[admin.RouteView]{
		one: "route", many: "routes",
		empty: "no core may serve it now; see `meshctl admin device show` and `meshctl admin core list`",
		id:    name, label: name,
		fields: func(r admin.RouteView, now time.Time) []field {
			out := []field{{"Server name", string(r.Name)}}
			if r.OfService() {
				return append(out, append([]field{{"Leads to", "a service of management"}}, hops(r)...)...)
			}
			out = append(out, []field{
				{"Device", string(r.Device)},
				{"Connections", limitOf(int64(r.Limits.Connections), count(r.Limits.Connections))},
				{"Traffic", limitOf(r.Limits.Traffic, size(r.Limits.Traffic))},
				{"Expires", at(r.Limits.Expires, now)},
				{"Ends", ends(r, now)},
			}...)
			return append(out, hops(r)...)
		},
	}
}

// ends is when a route does, and whether clients are still given its name.
func ends(r admin.RouteView, now time.Time) string {
	if r.Earlier {
		return at(r.Until, now) + "; the device was served there earlier, and clients are not given the name"
	}
	return at(r.Until, now)
}

func hops(r admin.RouteView) []field {
	var out []field
	for i, h := range r.Hops {
		out = append(out, field{fmt.Sprintf("Hop %d", i+1), hop(h, r.Targets)})
	}
	return out
}

// hop is one way out with its state and addresses.
func hop(h mesh.Hop, targets []mesh.Target) string {
	for _, t := range targets {
		if t.ID == h.ID {
			return strings.TrimSpace(fmt.Sprintf("%s %s  %s  %s", h.Kind, h.ID, t.State, listOf(t.Addresses)))
		}
	}
	return string(h.Kind) + " " + h.ID + "  no target"
}

func newAdminRoute(a *adminCLI) *cobra.Command {
	n := routeNoun()
	return group("route", "What entries are told about a server name", &cobra.Command{
		Use: "show NAME|DEVICE", Short: "Show the routes of a server name or a device", Args: takes("NAME|DEVICE"),
		ValidArgsFunction: completeArgs(a, deviceNoun().refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			l, err := ask(ctx, s, admin.RouteGet, admin.Ref{Ref: args[0]})
			if err != nil {
				return err
			}
			if s.format.String() != outputTable || len(l.Items) == 0 {
				return printList(s.out(), s.format, n, l, s.now)
			}
			for i, r := range l.Items {
				if i > 0 {
					fmt.Fprintln(s.out())
				}
				if err := printOne(s.out(), s.format, n, r, s.now); err != nil {
					return err
				}
			}
			return nil
		}),
	})
}
