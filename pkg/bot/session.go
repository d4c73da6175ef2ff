package bot

import (
	"context"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Session is one update of one user's, in the private chat with them, while it is
// handled.
type Session struct {
	Self admin.BotSelf
	T    *texts.Texts // in the user's language
	User mesh.TelegramID
	Name string    // as Telegram shows the user
	Lang string    // of the user's app, IETF tag
	Now  time.Time // when the update was taken up

	bot   *Bot
	key   string         // of changes that the update makes
	calls map[string]int // by method
	// pressed is the message whose button was pressed, 0: none, or it was replaced.
	pressed  int
	callback string // id of the press, until it is answered
	toast    string
	asked    bool // Ask was called
}

// Operator says whether the user may do what operators may.
func (s *Session) Operator() bool { return s.may(mesh.BotOperator) }

// Member says whether the user is linked to a member.
func (s *Session) Member() bool { return s.may(mesh.BotMember) }

func (s *Session) may(need mesh.BotStanding) bool {
	switch need {
	case mesh.BotOperator:
		return s.Self.Admin != ""
	case mesh.BotMember:
		return s.Self.Member != ""
	}
	return true
}

// Show shows the screen in the place of the one whose button was pressed, or in a
// new message.
func (s *Session) Show(ctx context.Context, screen Screen) error {
	parts, file := split(screen.Text)
	if s.pressed == 0 || file != "" || len(parts) != 1 || screen.Reply {
		_, err := s.Say(ctx, screen)
		return err
	}
	keys, err := s.keyboard(screen.Rows)
	if err != nil {
		return err
	}
	shown, err := s.bot.api.Edit(ctx, s.chat(), s.pressed, telegram.Message{Text: parts[0], Keyboard: keys})
	if err == nil && !shown {
		_, err = s.Say(ctx, screen)
	}
	return err
}

// Say shows the screen in a new message, and returns its number. What is too long
// is several, or a file; the number is that of the last.
func (s *Session) Say(ctx context.Context, screen Screen) (int64, error) {
	keys, err := s.keyboard(screen.Rows)
	if err != nil {
		return 0, err
	}
	id, err := s.bot.say(ctx, s.chat(), s.T, screen, keys)
	s.pressed = 0 // it is no longer the last
	return int64(id), err
}

// Ask shows the screen, and has the next words of the user answered by the Answer
// of that question, with data, for an hour.
func (s *Session) Ask(ctx context.Context, question, data string, screen Screen) error {
	_, err := Call(ctx, s, admin.BotExpect, mesh.TelegramChat{
		ID: s.User.String(), Asked: question, Data: data, Until: s.Now.Add(time.Hour),
	})
	if err != nil && !Done(err) {
		return err
	}
	s.asked = true
	return s.Show(ctx, screen)
}

// Photo sends a picture with the screen below it, and returns the number of the
// message. A text that is too long for that follows in a message of its own, whose
// number is returned.
func (s *Session) Photo(ctx context.Context, png []byte, screen Screen) (int64, error) {
	keys, err := s.keyboard(screen.Rows)
	if err != nil {
		return 0, err
	}
	if units(screen.Text) > maxCaption {
		if _, err := s.bot.api.Photo(ctx, s.chat(), png, telegram.Message{}); err != nil {
			return 0, err
		}
		return s.Say(ctx, screen)
	}
	id, err := s.bot.api.Photo(ctx, s.chat(), png, telegram.Message{Text: screen.Text, Keyboard: keys})
	s.pressed = 0
	return int64(id), err
}

// Secret is Say for what holds a secret. It refuses with ErrDenied where such are
// not to be in chats; ask SecretsAllowed before the secret is made.
func (s *Session) Secret(ctx context.Context, screen Screen) (int64, error) {
	if err := s.SecretsAllowed(); err != nil {
		return 0, err
	}
	return s.Say(ctx, screen)
}

// SecretsAllowed returns ErrDenied when what holds a secret is kept out of chats.
func (s *Session) SecretsAllowed() error {
	if s.Self.Settings.NoSecrets {
		return errNoSecrets
	}
	return nil
}

// Remove takes a message of the bot's away.
func (s *Session) Remove(ctx context.Context, message int64) error {
	return s.bot.api.Delete(ctx, s.chat(), int(message))
}

// Toast is shown over the button that was pressed, for a moment; plain text.
func (s *Session) Toast(text string) { s.toast = text }

// Pressed is the message whose button was pressed, 0 when there is none.
func (s *Session) Pressed() int64 { return int64(s.pressed) }

// Username of the bot, "" while it is not known.
func (s *Session) Username() string { return s.bot.api.Username() }

// chat is the private one with the user, which has the user's number.
func (s *Session) chat() int64 { return int64(s.User) }

// Speak changes the language of the session.
func (s *Session) Speak(lang string) { s.T = s.bot.texts.For(lang, s.Lang) }

// callKey names one change of an update: the same when the update comes again.
func (s *Session) callKey(method string) string {
	n := s.calls[method]
	s.calls[method]++
	return s.key + "." + method + "." + strconv.Itoa(n)
}
