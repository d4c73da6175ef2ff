package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newMgmtRemove(a *adminCLI, n noun[admin.ServerLine]) *cobra.Command {
	return &cobra.Command{
		Use: "remove SERVER", Short: "Take a management server out of the mesh for good", Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Takes a management server out of the mesh for good, and says what is left: whether
any one of those may fail. It asks first; --yes answers.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			list, err := ask(ctx, s, admin.MgmtList, admin.Page{})
			if err != nil {
				return err
			}
			left, whole := withoutServer(list.Items, args[0])
			if s.yes && !whole {
				fmt.Fprintln(s.err(), left)
			}
			d := deed{use: "remove", danger: "It decides nothing any more and cannot come back under its id. " + left}
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.MgmtRemove, admin.RevokeRequest{Ref: args[0]})
			if err != nil {
				return err
			}
			return changed(s, n, v, "removed")
		}),
	}
}

// withoutServer says which servers are left when the one named ref goes, and
// whether any one of them may fail then.
func withoutServer(all []admin.ServerLine, ref string) (text string, whole bool) {
	left := slices.DeleteFunc(slices.Clone(all), func(l admin.ServerLine) bool {
		return l.State == mesh.ServerRemoved || !l.Votes || strings.EqualFold(l.Name, ref) || string(l.ID) == ref
	})
	var away []string
	for _, l := range left {
		if !l.Here {
			away = append(away, clean(l.Name))
		}
	}
	switch {
	case len(left) == 1:
		text = "This leaves one server: not highly available"
	case len(left) == 2:
		text = "This leaves 2 servers: not highly available, the loss of one stops all changes"
	default:
		text = fmt.Sprintf("This leaves %d servers", len(left))
	}
	if len(away) > 0 {
		text += "; away: " + strings.Join(away, ", ")
	}
	return text + ".", len(left) >= 3 && len(left)-len(away)-1 >= len(left)/2+1
}
