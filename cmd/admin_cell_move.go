package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// newCellMove moves the devices one by one, so that it can be broken off, and
// goes on where it was when it is called again.
func newCellMove(a *adminCLI, n noun[admin.CellView]) *cobra.Command {
	return &cobra.Command{
		Use: "move CELL OTHER", Short: "Move all devices of a cell into another", Args: takes("CELL", "OTHER"), ValidArgsFunction: completeArgs(a, n.refs, n.refs),
		Long: `Move all devices of a cell into another, such as the one that takes the place of a
cell that was compromised. Devices keep their limits, secrets and links; clients learn
the new names at their next fetch; those of the old cell work until the overlap of
labels ends (labels.overlap) or it is retired.
What was broken off goes on where it was when the command is called again.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			from, err := ask(ctx, s, admin.CellGet, admin.Ref{Ref: args[0]})
			if err != nil {
				return err
			}
			to, err := ask(ctx, s, admin.CellGet, admin.Ref{Ref: args[1]})
			if err != nil {
				return err
			}
			if from.ID == to.ID {
				return usagef("cell %s is where they are", clean(from.Name))
			}
			devices, err := movable(ctx, s, from.ID)
			if err != nil {
				return err
			}
			if err := s.confirm(moveQuestion(from, to, len(devices))); err != nil {
				return err
			}
			return moveAll(ctx, s, devices, to)
		}),
	}
}

// movable are the devices of a cell that are not gone for good.
func movable(ctx context.Context, s *adminSession, cell mesh.CellID) ([]admin.DeviceView, error) {
	l, err := pages(ctx, s, admin.DeviceList, 0, func(p admin.Page) (admin.DeviceListRequest, error) {
		return admin.DeviceListRequest{Page: p, Cell: string(cell)}, nil
	})
	var out []admin.DeviceView
	for _, d := range l.Items {
		if d.State != mesh.DeviceRevoked {
			out = append(out, d)
		}
	}
	return out, err
}

func moveQuestion(from, to admin.CellView, devices int) string {
	q := fmt.Sprintf("Move %s from cell %s to cell %s, which has %s ready?", someOf(devices, "device"), clean(from.Name), clean(to.Name), someOf(to.CoresReady, "core"))
	return q + " Clients learn the new names at their next fetch; the old ones work until the overlap ends or the cell is retired."
}

func moveAll(ctx context.Context, s *adminSession, devices []admin.DeviceView, to admin.CellView) error {
	moved := admin.List[admin.DeviceView]{Items: []admin.DeviceView{}}
	unlinked := 0
	for _, d := range devices {
		v, err := ask(ctx, s, admin.DeviceSet, admin.DeviceSetRequest{Ref: string(d.ID), Cell: new(string(to.ID))})
		if err != nil {
			return mesh.WithHint(fmt.Errorf("device %s (%d of %d are moved): %w", clean(d.Name), len(moved.Items), len(devices), err),
				"call it again: it goes on where it was")
		}
		moved.Items = append(moved.Items, v)
		if v.Linked.IsZero() {
			unlinked++
		}
	}
	if s.format.String() != outputTable {
		return printList(s.out(), s.format, deviceNoun(), moved, s.now)
	}
	if err := s.say("%s moved to cell %s", someOf(len(devices), "device"), clean(to.Name)); err != nil || unlinked == 0 {
		return err
	}
	return s.say("%s without a link: their clients have to be set up again", someOf(unlinked, "device"))
}
