package mgmt

import (
	"context"
	"fmt"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/bots"
)

// bot reads what the Telegram bot needs.
func (s *Server) bot(ctx context.Context) (bots.Connection, error) {
	c := bots.Connection{APIs: s.Config.Bot.APIs}
	read := func(key string, from func(context.Context) (mesh.Secret, error), check func(mesh.Secret) (mesh.Secret, error)) (mesh.Secret, error) {
		if from == nil {
			return "", nil
		}
		text, err := from(ctx)
		if err != nil {
			return "", setup(fmt.Errorf("mgmt: configuration: %w", err)) // which names the key
		}
		if text, err = check(text); err != nil {
			return "", setup(fmt.Errorf("mgmt: configuration: %s: %w", key, err))
		}
		return text, nil
	}
	var err error
	if c.Token, err = read("bot.token-file", s.BotToken, chores.ParseBotToken); err != nil {
		return c, err
	}
	c.Proxy, err = read("bot.proxy-file", s.BotProxy, chores.ParseProxy)
	return c, err
}

// keepBot gives the bot's side here what it needs of this server.
func (r *runtime) keepBot() {
	r.bots = &bots.Service{
		Store: r.store, Admin: &r.admin, Mesh: r.keys.Mesh, Server: r.keys.Server, Connection: r.telegram,
		Wake: r.foreman.Wake, Log: r.log.With("unit", "bot"),
	}
	r.foreman.Bot, r.foreman.Outbox = r.bots, r.bots
}

// judgeBot names what somebody should look at.
func (r *runtime) judgeBot(ctx context.Context, problem func(string, ...any)) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	all, err := r.bots.Problems(ctx)
	if err != nil {
		problem("bot: %v", err)
	}
	for _, p := range all {
		problem("%s", p)
	}
}
