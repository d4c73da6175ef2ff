package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	tele "gopkg.in/telebot.v3"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxWords is how much of what somebody wrote is looked at, in bytes: Telegram has
// no longer messages.
const maxWords = 4 * maxText

// incoming is an update of a user in the private chat with them: all others are
// ignored.
type incoming struct {
	id      int
	user    *tele.User
	words   string
	replyTo int            // message of ours
	press   *tele.Callback // nil: words
}

// sift returns what an update is; false when it is none of ours: without a sender,
// of a group or a channel, in somebody's name, forwarded, edited, of a bot.
func sift(u tele.Update) (incoming, bool) {
	switch {
	case u.Callback != nil:
		c := u.Callback
		if !person(c.Sender) || c.Message == nil || c.Message.Chat == nil || c.MessageID != "" ||
			c.Message.Chat.Type != tele.ChatPrivate || c.Message.Chat.ID != c.Sender.ID {
			return incoming{}, false
		}
		return incoming{id: u.ID, user: c.Sender, press: c}, true
	case u.Message != nil:
		m := u.Message
		if !person(m.Sender) || m.Chat == nil || m.Chat.Type != tele.ChatPrivate || m.Chat.ID != m.Sender.ID ||
			m.SenderChat != nil || m.Via != nil || m.LastEdit != 0 || m.Origin != nil || m.OriginalUnixtime != 0 {
			return incoming{}, false
		}
		if strings.TrimSpace(m.Text) == "" || len(m.Text) > maxWords {
			return incoming{}, false
		}
		in := incoming{id: u.ID, user: m.Sender, words: strings.TrimSpace(strings.ToValidUTF8(m.Text, "�"))}
		if m.ReplyTo != nil {
			in.replyTo = m.ReplyTo.ID
		}
		return in, true
	}
	return incoming{}, false
}

func person(u *tele.User) bool { return u != nil && u.ID > 0 && !u.IsBot }

// take has an update handled in its turn.
func (b *Bot) take(ctx context.Context, u telegram.Update) {
	in, ok := sift(u.Update)
	if !ok || !b.crew.give(in.user.ID, func() {
		defer u.Done()
		b.guarded(func() { b.handle(ctx, in) })
	}) {
		b.api.Ignored()
		u.Done()
	}
}

// handle answers one update.
func (b *Bot) handle(ctx context.Context, in incoming) {
	ctx, cancel := context.WithTimeout(ctx, handleTime)
	defer cancel()
	s := b.session(in)
	err := b.know(ctx, s)
	switch {
	case errors.Is(err, errIgnored), err == nil && s.unheard(in):
		b.api.Ignored()
		return
	case err == nil:
		b.offer(ctx, s)
		err = b.route(ctx, s, in)
	}
	if err == nil {
		b.api.Handled()
	} else {
		b.refused(ctx, s, err)
	}
	if s.callback != "" {
		// It only stops an app's waiting, and is too late when it fails.
		_ = b.api.Answer(ctx, s.callback, s.toast)
	}
}

// refused says why an update was not handled.
func (b *Bot) refused(ctx context.Context, s *Session, err error) {
	for reason, key := range map[error]string{errOld: "press.old", errExpired: "press.expired", errForged: "press.refused"} {
		if errors.Is(err, reason) {
			b.api.Ignored()
			s.Toast(s.T.Plain(key))
			return
		}
	}
	b.api.Handled()
	if telegram.FailureOf(err) == 0 {
		if mesh.Kind(err) == nil {
			b.Log.Error("update not handled", "reason", "internal")
		}
		err = s.Fail(ctx, err)
	}
	// What Telegram says may quote what was written, and servers name people.
	if e, ok := errors.AsType[*telegram.Error](err); ok {
		b.Log.Warn("answer not sent", "code", e.Code)
	}
}

var (
	errOld     = errors.New("bot: the message whose button was pressed is too old")
	errIgnored = errors.New("bot: nobody to answer")
)

// session is for an update, before it is known whose it is.
func (b *Bot) session(in incoming) *Session {
	s := &Session{
		User: mesh.TelegramID(in.user.ID), Name: strings.TrimSpace(in.user.FirstName + " " + in.user.LastName),
		Lang: in.user.LanguageCode, Now: time.Now(), bot: b, key: strconv.Itoa(in.id), calls: map[string]int{},
	}
	s.T = b.texts.For(s.Lang)
	if in.press != nil {
		s.callback, s.pressed = in.press.ID, in.press.Message.ID
	}
	return s
}

// know asks the server who the user is.
func (b *Bot) know(ctx context.Context, s *Session) error {
	self, err := Call(ctx, s, admin.BotWho, admin.BotWhoRequest{Language: s.Lang})
	if err != nil {
		if mesh.Kind(err) == mesh.ErrDenied {
			return errIgnored
		}
		return err
	}
	s.Self = self
	s.T = b.texts.For(self.Language, s.Lang)
	return nil
}

// unheard says whether the user gets no answer: who is blocked, and strangers
// where there are to be none, unless they bring a code.
func (s *Session) unheard(in incoming) bool {
	if s.Self.State == mesh.TelegramBlocked {
		return true
	}
	if s.Operator() || s.Member() || !s.Self.Settings.NoGuests {
		return false
	}
	name, rest := command(in.words)
	return name != "start" && name != "link" || rest == ""
}

// route finds what is to be done, and does it.
func (b *Bot) route(ctx context.Context, s *Session, in incoming) error {
	if in.press != nil {
		return b.pressed(ctx, s, in.press)
	}
	if name, rest := command(in.words); name != "" {
		if err := s.forget(ctx); err != nil {
			return err
		}
		if c, ok := b.routes.commands[name]; ok && s.may(c.Need) {
			return c.Do(ctx, s, rest)
		}
		return b.talk(ctx, s, in.words)
	}
	if in.replyTo != 0 && b.routes.Reply != nil {
		if err := b.routes.Reply(ctx, s, int64(in.replyTo), in.words); mesh.Kind(err) != mesh.ErrNotFound {
			return err
		}
	}
	if q := s.Self.Expect; q != nil && s.Now.Before(q.Until) {
		if a, ok := b.routes.answers[q.Asked]; ok && s.may(a.Need) {
			return b.answered(ctx, s, a, q.Data, in.words)
		}
	}
	return b.talk(ctx, s, in.words)
}

func (b *Bot) talk(ctx context.Context, s *Session, words string) error {
	if b.routes.Talk == nil {
		return nil
	}
	return b.routes.Talk(ctx, s, words)
}

// answered hands words to who asked for them. The question is forgotten only then:
// what ends in between is asked, and answered, again.
func (b *Bot) answered(ctx context.Context, s *Session, a Answer, data, words string) error {
	err := a.Do(ctx, s, data, words)
	switch mesh.Kind(err) {
	case mesh.ErrInvalid, mesh.ErrExists, mesh.ErrNotFound:
		if !Done(err) {
			return err
		}
	}
	if !s.asked {
		err = errors.Join(err, s.forget(ctx))
	}
	return err
}

// forget ends the waiting for words.
func (s *Session) forget(ctx context.Context) error {
	if s.Self.Expect == nil {
		return nil
	}
	_, err := Call(ctx, s, admin.BotExpect, mesh.TelegramChat{ID: s.User.String()})
	if Done(err) {
		return nil
	}
	return err
}

// pressed does what a button says, if it is one of ours: signed for this user, and
// part of the message as Telegram has it.
func (b *Bot) pressed(ctx context.Context, s *Session, c *tele.Callback) error {
	if c.Message.Unixtime == 0 {
		return errOld
	}
	if !holds(c.Message.ReplyMarkup, c.Data) {
		return errForged
	}
	p, err := b.signer.read(c.Sender.ID, c.Message.Chat.ID, c.Data, s.Now)
	if err != nil {
		return err
	}
	a, ok := b.routes.actions[p.action]
	if !ok {
		return errOld // of another version
	}
	if !s.may(a.Need) || a.Changes != p.changes {
		return errForged
	}
	if p.changes {
		sum := sha256.Sum256([]byte(c.Data))
		s.key = "cb/" + hex.EncodeToString(sum[:12])
	}
	return a.Do(ctx, s, p.args)
}

// holds says whether a keyboard has a button with the data.
func holds(keys *tele.ReplyMarkup, data string) bool {
	if keys == nil || data == "" {
		return false
	}
	for _, row := range keys.InlineKeyboard {
		for _, b := range row {
			if b.Data == data {
				return true
			}
		}
	}
	return false
}

// command reads "/name rest"; name is "" when it is none.
func command(words string) (name, rest string) {
	text, ok := strings.CutPrefix(words, "/")
	if !ok {
		return "", ""
	}
	name, rest, _ = strings.Cut(text, " ")
	if i := strings.IndexByte(name, '\n'); i >= 0 {
		name, rest = name[:i], name[i+1:]+" "+rest
	}
	name, _, _ = strings.Cut(name, "@") // in private chats it can only be us
	return strings.ToLower(name), strings.TrimSpace(rest)
}
