package bot

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// handleTime is how long one update may take, waiting for Telegram and all.
const handleTime = time.Minute

// Bot answers people on Telegram. Set the fields, then Run.
type Bot struct {
	Telegram telegram.Settings
	Mesh     mesh.ID
	// Key signs buttons, beside the token: who stole that cannot have an operator
	// press what it means something else. "": the token alone does.
	Key    mesh.Secret
	Server grpc.ClientConnInterface // the Admin service, which knows the child
	Outbox Outbox                   // nil: there is nothing to tell by itself
	Log    *slog.Logger

	texts   texts.Catalogue
	api     *telegram.Client
	signer  signer
	routes  index
	crew    *crew
	offered offers
}

// Run answers, and sends what waits in the outbox, until ctx ends. It fails only
// when it cannot begin. What is under way when ctx ends is called off; Telegram
// brings it again to whoever comes next.
func (b *Bot) Run(ctx context.Context) error { return b.run(ctx, standard()) }

func (b *Bot) run(ctx context.Context, routes Routes) error {
	if err := b.begin(ctx, routes); err != nil {
		return err
	}
	defer b.api.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	if b.Outbox != nil {
		p := &post{bot: b, wake: make(chan struct{}, 1), chats: map[string]*chatQueue{}}
		wg.Go(func() { p.run(ctx) })
	}
	wg.Go(func() { b.offerAll(ctx) })
	defer b.crew.wait()
	b.api.Poll(ctx, func(u telegram.Update) { b.take(ctx, u) })
	return nil
}

func (b *Bot) begin(ctx context.Context, routes Routes) error {
	var err error
	if b.signer, err = newSigner(b.Telegram.Token, b.Key, b.Mesh); err != nil {
		return err
	}
	if b.routes, err = newIndex(routes); err != nil {
		return err
	}
	if b.api, err = telegram.New(ctx, b.Telegram); err != nil {
		return err
	}
	b.texts, b.crew = texts.Load(), newCrew()
	return nil
}

// data writes a button's.
func (b *Bot) data(s *Session, button Button) (string, error) {
	a, ok := b.routes.actions[button.Action]
	if !ok {
		return "", fmt.Errorf("bot: button: there is no action %s: %w", button.Action, mesh.ErrInvalid)
	}
	return b.signer.write(int64(s.User), s.chat(), press{action: a.Name, args: button.Args, changes: a.Changes}, time.Now())
}

// guarded runs f; a panic in it ends f alone.
func (b *Bot) guarded(f func()) {
	defer func() {
		if p := recover(); p != nil {
			// What was panicked with may hold what somebody wrote.
			b.Log.Error("handler panicked", "err", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		}
	}()
	f()
}

// say shows a screen in new messages, and returns the number of the last.
func (b *Bot) say(ctx context.Context, chat int64, t *texts.Texts, screen Screen, keys [][]telegram.Button) (int, error) {
	parts, file := split(screen.Text)
	last := telegram.Message{Keyboard: keys, ForceReply: screen.Reply && len(keys) == 0}
	if file != "" {
		last.Text = caption(t)
		return b.api.Document(ctx, chat, "meshctl.txt", []byte(file), last)
	}
	for _, part := range parts[:len(parts)-1] {
		if _, err := b.api.Send(ctx, chat, telegram.Message{Text: part}); err != nil {
			return 0, err
		}
	}
	last.Text = parts[len(parts)-1]
	return b.api.Send(ctx, chat, last)
}
