package bots

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// waitsLong is how long a message may wait before that is worth a look.
const waitsLong = 15 * time.Minute

// status is how the bot goes, as far as it shows in the store.
func (s *Service) status(ctx context.Context, _ admin.None) (admin.BotStatus, error) {
	out := admin.BotStatus{Configured: s.Connection.Token != ""}
	var err error
	if out.BotState, err = s.state(ctx); err != nil {
		return out, err
	}
	out.Told = mesh.BotTold{} // nobody else's matter
	users, _, err := s.Store.Telegram.List(ctx)
	if err != nil {
		return out, err
	}
	for _, u := range users {
		switch {
		case u.State == mesh.TelegramBlocked:
			out.Blocked++
		case u.Admin != "" || u.Member != "":
			out.Linked++
		case u.State == mesh.TelegramAsked:
			out.Asking++
		}
	}
	waiting, _, err := s.Store.Outbox.List(ctx)
	if err != nil {
		return out, err
	}
	oldest := s.now()
	for _, n := range waiting {
		if _, chat := n.Telegram(); chat {
			out.Waiting++
			if n.Created.Before(oldest) {
				oldest = n.Created
			}
		}
	}
	out.Problems = problems(out, s.now().Sub(oldest))
	return out, nil
}

func problems(b admin.BotStatus, waited time.Duration) []string {
	var out []string
	switch {
	case !b.Configured && b.Linked > 0:
		out = append(out, "Telegram accounts are linked, and this server has no token of a bot (bot.token-file)")
	case b.Configured && b.State != "" && b.State != mesh.BotWorking:
		out = append(out, fmt.Sprintf("%s, since %s", inWords(b.State), b.Since.Format(time.RFC3339)))
	}
	if b.Waiting > 0 && waited > waitsLong {
		out = append(out, fmt.Sprintf("messages that wait to be sent: %d, the oldest for %v", b.Waiting, waited.Round(time.Minute)))
	}
	return out
}

// Problems are what somebody should look at, in words.
func (s *Service) Problems(ctx context.Context) ([]string, error) {
	b, err := s.status(ctx, admin.None{})
	var out []string
	for _, p := range b.Problems {
		out = append(out, "bot: "+p)
	}
	return out, err
}
