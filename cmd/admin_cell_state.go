package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// cellState is a leaf that moves a cell to another state.
type cellState struct {
	use, short, done string
	to               mesh.CellState
}

// newCellState says first what will happen, and asks.
func newCellState(a *adminCLI, n noun[admin.CellView], d cellState, aliases ...string) *cobra.Command {
	return &cobra.Command{
		Use: d.use + " CELL", Aliases: aliases, Short: d.short, Args: takes("CELL"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: d.short + ". What will happen is said first.",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			f, err := ask(ctx, s, admin.CellForecastOf, admin.CellForecastRequest{Ref: args[0], State: d.to})
			if err != nil {
				return err
			}
			verb := strings.ToUpper(d.use[:1]) + d.use[1:]
			if err := s.confirm(fmt.Sprintf("%s cell %s? %s", verb, clean(f.Name), forecastText(f, d.to))); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.CellSet, admin.CellSetRequest{Ref: string(f.Cell), State: &d.to})
			if err != nil {
				return err
			}
			if err := changed(s, n, v, "is "+d.done); err != nil {
				return err
			}
			return s.say("%s", afterwards(f, d.to))
		}),
	}
}

// forecastText says in sentences what a change of state would do.
func forecastText(f admin.CellForecast, to mesh.CellState) string {
	if f.State == to {
		return "It is so already."
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if f.Devices == 0 {
		say("No device is served there.")
	} else {
		say("It serves %s of %s.", someOf(f.Devices, "device"), someOf(f.Members, "member"))
	}
	for _, h := range f.Hosts {
		say("Cell %s takes in %d, with %s.", clean(h.Name), h.Devices, readyCores(h.CoresReady))
	}
	if f.Stranded > 0 {
		say("No fallback takes in %d: their clients get a notice instead of a way in.", f.Stranded)
	}
	if f.Returning > 0 {
		say("%d of them come back from a fallback, which serves them on until the overlap ends.", f.Returning)
	}
	if f.Dismissed > 0 {
		say("%s of other cells lose it as their fallback.", someOf(f.Dismissed, "guest"))
	}
	switch to {
	case mesh.CellCompromised:
		say("Its own names go on working for clients that have them, but are given to nobody.")
	case mesh.CellRetired:
		say("Its own names stop at once; this cannot be undone.")
	case mesh.CellActive:
		say("Its names are given to clients again.")
	}
	return strings.Join(out, " ")
}

func readyCores(n int) string {
	if n == 0 {
		return "no core that is ready: they wait for one"
	}
	return someOf(n, "core") + " ready"
}

// afterwards is what a person should know once it is done.
func afterwards(f admin.CellForecast, to mesh.CellState) string {
	if f.Devices == 0 && f.Dismissed == 0 {
		return "no client has to learn of it"
	}
	out := []string{"clients learn of it at their next fetch; who opens the app or updates the profile learns at once"}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if to == mesh.CellActive {
		return out[0]
	}
	if f.Stranded > 0 {
		say("%s without a fallback: meshctl admin cell set %s --fallback OTHER, or move them: meshctl admin cell move %[2]s OTHER", someOf(f.Stranded, "device"), f.Cell)
	}
	for _, h := range f.Hosts {
		if h.CoresReady == 0 {
			say("warning: cell %s takes in %s and has no core that is ready: meshctl admin token create --role core --cell %[1]s, or another fallback: meshctl admin cell set %[3]s --fallback OTHER",
				clean(h.Name), someOf(h.Devices, "device"), f.Cell)
		}
	}
	return strings.Join(out, "\n")
}
