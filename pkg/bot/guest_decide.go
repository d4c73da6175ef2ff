package bot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// showCells asks where the first device of a new member shall be served.
func showCells(ctx context.Context, s *Session, g admin.BotGuest) error {
	cells, err := all(ctx, s, admin.CellList, whole)
	if err != nil {
		return err
	}
	slices.SortFunc(cells, func(a, b admin.CellView) int { return byName(a.Name, b.Name) })
	var rows [][]Button
	for _, c := range cells {
		if c.State != mesh.CellActive || len(rows) == maxListed {
			continue
		}
		action := "gcores"
		if c.Cores < 2 {
			action = "gyes"
		}
		rows = append(rows, Row(Button{Label: labelled(c.Name), Action: action, Args: []string{string(g.ID), string(c.ID)}}))
	}
	rows = append(rows,
		Row(Button{Label: s.T.Plain("guests.nowhere"), Action: "gyes", Args: []string{string(g.ID)}}),
		Row(button(s, "back", "guest", string(g.ID))))
	return s.Show(ctx, Screen{Text: s.T.HTML("guests.approve", "name", guestName(g)), Rows: rows})
}

// pickCore asks through which core of the cell.
func pickCore(ctx context.Context, s *Session, args []string) error {
	return onGuest(func(ctx context.Context, s *Session, g admin.BotGuest) error {
		cell, err := Call(ctx, s, admin.CellGet, admin.Ref{Ref: arg(args, 1)})
		if err != nil {
			return err
		}
		cores, err := all(ctx, s, admin.CoreList, whole)
		if err != nil {
			return err
		}
		slices.SortFunc(cores, func(a, b admin.CoreView) int { return byName(a.Name, b.Name) })
		yes := func(label string, place string) []Button {
			return Row(Button{Label: labelled(label), Action: "gyes", Args: []string{string(g.ID), place}})
		}
		rows := [][]Button{yes(s.T.Plain("guests.any"), string(cell.ID))}
		for _, c := range cores {
			if c.Cell == cell.ID && c.State != mesh.CoreRevoked && len(rows) < maxListed {
				rows = append(rows, yes(coreMark(c.State)+" "+c.Name, string(c.ID)))
			}
		}
		return s.Show(ctx, Screen{
			Text: s.T.HTML("guests.core", "name", guestName(g), "cell", cell.Name),
			Rows: append(rows, Row(button(s, "back", "gcells", string(g.ID)))),
		})
	})(ctx, s, arg(args, 0))
}

// approveBy takes a guest in; the second argument is a cell, a core, or nothing.
func approveBy(ctx context.Context, s *Session, args []string) error {
	return onGuest(func(ctx context.Context, s *Session, g admin.BotGuest) error {
		return approve(ctx, s, g, arg(args, 1), "")
	})(ctx, s, arg(args, 0))
}

// approveAs takes a guest in under the name that was asked for.
func approveAs(ctx context.Context, s *Session, data, name string) error {
	ref, place, _ := strings.Cut(data, " ")
	return onGuest(func(ctx context.Context, s *Session, g admin.BotGuest) error {
		return approve(ctx, s, g, place, name)
	})(ctx, s, ref)
}

// approve takes a guest in, with a device in a cell or at a core, or without one.
// What Telegram calls people may be no name for a member; then it asks for one.
func approve(ctx context.Context, s *Session, g admin.BotGuest, place, name string) error {
	req := admin.BotDecideRequest{Ref: string(g.ID), Cell: place, Name: name}
	if strings.HasPrefix(place, "core-") {
		req.Cell, req.Core = "", place
	}
	made, err := Call(ctx, s, admin.BotDecide, req)
	switch {
	case Done(err):
		return showDecided(ctx, s)
	case errors.Is(err, mesh.ErrInvalid), errors.Is(err, mesh.ErrExists):
		return s.Ask(ctx, "guest-name", string(g.ID)+" "+place, Screen{
			Text: s.T.HTML("guests.name", "name", cmp.Or(name, guestName(g))), Reply: true,
		})
	case err != nil:
		return err
	}
	rows := [][]Button{Row(button(s, "guests", "guests"), button(s, "home", "home"))}
	if made.Member == nil {
		return s.Show(ctx, Screen{Text: s.T.HTML("guests.decided"), Rows: rows})
	}
	rows = append([][]Button{Row(Button{Label: s.T.Plain("guests.button.member"), Action: actMember, Args: []string{string(made.Member.ID)}})}, rows...)
	return s.Show(ctx, Screen{Text: s.T.HTML("guests.approved", "name", made.Member.Name), Rows: rows})
}

func decline(ctx context.Context, s *Session, args []string) error {
	return onGuest(func(ctx context.Context, s *Session, g admin.BotGuest) error {
		return decide(ctx, s, g, mesh.TelegramDeclined, "guests.declined")
	})(ctx, s, arg(args, 0))
}

// showBlock says what blocking does.
func showBlock(ctx context.Context, s *Session, g admin.BotGuest) error {
	return s.sure(ctx, s.T.HTML("guests.block", "name", guestName(g)), button(s, "back", "guest", string(g.ID)),
		Button{Label: s.T.Plain("guests.button.block"), Action: "gblk", Args: []string{string(g.ID)}})
}

func block(ctx context.Context, s *Session, args []string) error {
	return onGuest(func(ctx context.Context, s *Session, g admin.BotGuest) error {
		return decide(ctx, s, g, mesh.TelegramBlocked, "guests.blocked")
	})(ctx, s, arg(args, 0))
}

func decide(ctx context.Context, s *Session, g admin.BotGuest, state mesh.TelegramState, done string) error {
	_, err := Call(ctx, s, admin.BotDecide, admin.BotDecideRequest{Ref: string(g.ID), State: state})
	switch {
	case Done(err):
	case errors.Is(err, mesh.ErrNotFound), errors.Is(err, mesh.ErrConflict):
		return showDecided(ctx, s)
	case err != nil:
		return err
	}
	return s.Show(ctx, Screen{
		Text: s.T.HTML(done, "name", guestName(g)),
		Rows: [][]Button{Row(button(s, "guests", "guests"), button(s, "home", "home"))},
	})
}
