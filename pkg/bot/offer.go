package bot

import (
	"context"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxOffered is how many chats are kept in mind.
const maxOffered = 10_000

// offers remembers which commands the apps of whom were told of.
type offers struct {
	mu   sync.Mutex // guards told
	told map[mesh.TelegramID]offered
}

// offered decides which commands there are.
type offered struct {
	operator, member bool
	lang             string
}

// commandsFor lists what apps offer to somebody who stands like that.
func (b *Bot) commandsFor(t *texts.Texts, may func(mesh.BotStanding) bool) []telegram.Command {
	var out []telegram.Command
	for _, c := range b.routes.Commands {
		if key := "command." + c.Name; may(c.Need) && t.Has(key) {
			out = append(out, telegram.Command{Name: c.Name, Description: t.Plain(key)})
		}
	}
	return out
}

// offerAll tells apps of strangers which commands there are, in each language,
// and tries until that is done.
func (b *Bot) offerAll(ctx context.Context) {
	anyone := func(need mesh.BotStanding) bool { return need == mesh.BotAnyone }
	for i, lang := range texts.Languages() {
		code := lang
		if i == 0 {
			code = "" // for everybody whose language there is not
		}
		for wait := time.Second; ctx.Err() == nil; wait = min(4*wait, time.Minute) {
			if err := b.api.SetCommands(ctx, 0, code, b.commandsFor(b.texts.For(lang), anyone)); err == nil {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
}

// offer tells the app of whoever is linked which commands there are, when they
// are others than before. That it fails does not matter: they work all the same.
func (b *Bot) offer(ctx context.Context, s *Session) {
	now := offered{s.Operator(), s.Member(), s.T.Language()}
	b.offered.mu.Lock()
	before, known := b.offered.told[s.User]
	stranger := !now.operator && !now.member
	same := known && before == now || !known && stranger
	if !same {
		if b.offered.told == nil || len(b.offered.told) >= maxOffered {
			b.offered.told = map[mesh.TelegramID]offered{}
		}
		b.offered.told[s.User] = now
	}
	b.offered.mu.Unlock()
	if !same {
		_ = b.api.SetCommands(ctx, s.chat(), "", b.commandsFor(s.T, s.may))
	}
}

// languageOf is the language in which a user was last spoken with, "" when that is
// not known here.
func (b *Bot) languageOf(user mesh.TelegramID) string {
	b.offered.mu.Lock()
	defer b.offered.mu.Unlock()
	return b.offered.told[user].lang
}
