package bot

import (
	"context"
	"errors"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// guestRoutes are what strangers can do: use a code, which is everybody's, and ask
// to join.
func guestRoutes() Routes {
	return Routes{
		Commands: []Command{{"join", mesh.BotAnyone, askToJoin}},
		Actions: []Action{{Name: "join", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, _ []string) error {
			return askToJoin(ctx, s, "")
		}}},
		Answers: []Answer{{"join", mesh.BotAnyone, func(ctx context.Context, s *Session, _, text string) error {
			return sendWish(ctx, s, text)
		}}},
	}
}

// guestHome is the first screen of a stranger.
func guestHome(s *Session) Screen {
	key, rows := "start.guest", [][]Button{Row(button(s, "join", "join"))}
	switch s.Self.State {
	case mesh.TelegramAsked:
		key, rows = "start.asked", nil
	case mesh.TelegramDeclined:
		key = "start.declined"
	}
	return Screen{Text: s.T.HTML(key), Rows: rows}
}

// askToJoin takes a wish to the operators, or asks for it.
func askToJoin(ctx context.Context, s *Session, text string) error {
	switch {
	case s.Operator() || s.Member():
		return showHome(ctx, s)
	case s.Self.State == mesh.TelegramAsked:
		return s.Show(ctx, Screen{Text: s.T.HTML("join.already")})
	case text != "":
		return sendWish(ctx, s, text)
	}
	return s.Ask(ctx, "join", "", Screen{Text: s.T.HTML("join.ask"), Reply: true})
}

func sendWish(ctx context.Context, s *Session, text string) error {
	_, err := Call(ctx, s, admin.BotJoin, admin.BotJoinRequest{Name: s.Name, Text: strings.TrimSpace(text), Language: s.Lang})
	key := "join.done"
	switch {
	case Done(err):
	case errors.Is(err, mesh.ErrExists):
		key = "join.already"
	case errors.Is(err, mesh.ErrDenied):
		key = "join.slow"
	case errors.Is(err, mesh.ErrConflict):
		return showHome(ctx, s)
	case err != nil:
		return err
	}
	return s.Show(ctx, Screen{Text: s.T.HTML(key)})
}
