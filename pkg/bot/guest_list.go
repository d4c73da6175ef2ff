package bot

import (
	"context"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// guestCardRoutes are what operators do about strangers who want to join.
func guestCardRoutes() Routes {
	return Routes{
		Commands: []Command{
			operates("guests", onGuest(showGuest)),
			operates("approve", func(ctx context.Context, s *Session, rest string) error {
				ref, cell, _ := strings.Cut(rest, " ")
				if cell = strings.TrimSpace(cell); cell == "" {
					return onGuest(showCells)(ctx, s, ref)
				}
				return approveBy(ctx, s, []string{ref, cell})
			}),
			operates("decline", func(ctx context.Context, s *Session, ref string) error { return decline(ctx, s, []string{ref}) }),
			operates("block", onGuest(showBlock)),
		},
		Actions: []Action{
			looks("guests", by(showGuests)),
			looks("guest", by(onGuest(showGuest))),
			looks("gcells", by(onGuest(showCells))),
			looks("gcores", pickCore),
			deed("gyes", approveBy),
			deed("gno", decline),
			looks("gblock", by(onGuest(showBlock))),
			deed("gblk", block),
		},
		Answers: []Answer{answers("guest-name", approveAs)},
	}
}

func (s *Session) guests(ctx context.Context) ([]admin.BotGuest, error) {
	return all(ctx, s, admin.BotGuests, whole)
}

func showGuests(ctx context.Context, s *Session, page string) error {
	list, err := s.guests(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return s.Show(ctx, Screen{Text: s.T.HTML("guests.none"), Rows: [][]Button{Row(button(s, "refresh", "guests"), button(s, "home", "home"))}})
	}
	p := s.paged(page, len(list), "guests")
	var l lines
	l.add(p.title(s.T.HTML("guests.title")))
	l.gap()
	from, to := p.span()
	for _, g := range list[from:to] {
		l.add(s.T.HTML("guests.line", "name", guestName(g), "state", guestState(s, g), "when", s.T.Ago(g.Created, s.Now)))
	}
	rows := p.rows(func(i int) Button {
		return Button{Label: guestName(list[i]), Action: "guest", Args: []string{string(list[i].ID)}}
	})
	return s.Show(ctx, Screen{Text: l.String(), Rows: append(rows, Row(button(s, "refresh", "guests"), button(s, "home", "home")))})
}

// guestName is how Telegram shows the guest, or at least a number.
func guestName(g admin.BotGuest) string {
	if g.Name == "" {
		return g.User
	}
	return g.Name
}

func guestState(s *Session, g admin.BotGuest) string {
	return s.T.Plain("guests.state." + string(g.State))
}

// onGuest finds the guest that a button names by id, or a command by Telegram's
// number; without either it shows who is there.
func onGuest(do func(context.Context, *Session, admin.BotGuest) error) func(context.Context, *Session, string) error {
	return func(ctx context.Context, s *Session, ref string) error {
		if ref == "" {
			return showGuests(ctx, s, "")
		}
		list, err := s.guests(ctx)
		if err != nil {
			return err
		}
		for _, g := range list {
			if string(g.ID) == ref || g.User == ref {
				return do(ctx, s, g)
			}
		}
		return showDecided(ctx, s)
	}
}

func showDecided(ctx context.Context, s *Session) error {
	return s.Show(ctx, Screen{Text: s.T.HTML("guests.decided"), Rows: [][]Button{Row(button(s, "guests", "guests"))}})
}

func showGuest(ctx context.Context, s *Session, g admin.BotGuest) error {
	return s.Show(ctx, Screen{
		Text: s.T.HTML("guests.card", "name", guestName(g), "user", g.User, "state", guestState(s, g), "when", s.T.Ago(g.Created, s.Now)),
		Rows: append(guestRows(s, string(g.ID), g.State), Row(button(s, "back", "guests"))),
	})
}

// guestRows are what can be decided about a guest.
func guestRows(s *Session, ref string, state mesh.TelegramState) [][]Button {
	if !s.mayChange() || state == mesh.TelegramBlocked {
		return nil
	}
	choose := func(label, action string) Button {
		return Button{Label: s.T.Plain("guests.button." + label), Action: action, Args: []string{ref}}
	}
	no := Row(choose("block", "gblock"))
	if state == mesh.TelegramAsked {
		no = Row(choose("decline", "gno"), no[0])
	}
	return [][]Button{Row(choose("approve", "gcells")), no}
}
