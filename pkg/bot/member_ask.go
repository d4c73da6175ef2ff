package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// askOperators takes a question to the operators, or asks for it.
func askOperators(ctx context.Context, s *Session, text string) error {
	if text != "" {
		return sendQuestion(ctx, s, text)
	}
	return s.Ask(ctx, "ask", "", Screen{Text: s.T.HTML("ask.ask"), Reply: true})
}

func sendQuestion(ctx context.Context, s *Session, text string) error {
	if strings.TrimSpace(text) == "" {
		return s.Show(ctx, Screen{Text: s.T.HTML("ask.empty")})
	}
	_, err := Call(ctx, s, admin.BotHelp, admin.BotHelpRequest{Name: s.Name, Text: text})
	key := "ask.done"
	switch {
	case Done(err):
	case errors.Is(err, mesh.ErrUnavailable):
		key = "ask.nobody"
	case errors.Is(err, mesh.ErrDenied):
		key = "ask.slow"
	case errors.Is(err, mesh.ErrInvalid):
		key = "ask.long"
	case err != nil:
		return err
	}
	return s.Show(ctx, Screen{Text: s.T.HTML(key)})
}

var errNoThread = fmt.Errorf("bot: reply: nobody is known to whom it goes: %w", mesh.ErrNotFound)

// reply takes words that answer a message of the bot's to whom they are for: an
// operator's to who asked, and a member's to the operators.
func reply(ctx context.Context, s *Session, to int64, text string) error {
	if s.Operator() {
		_, err := Call(ctx, s, admin.BotAnswer, admin.BotAnswerRequest{Message: to, Text: text})
		if err == nil || Done(err) {
			return s.Show(ctx, Screen{Text: s.T.HTML("answer.done")})
		}
		if !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
	}
	switch {
	case s.waits():
		return errNoThread
	case s.Member():
		return sendQuestion(ctx, s, text)
	case s.Operator():
		return s.Show(ctx, Screen{Text: s.T.HTML("answer.none")})
	}
	return errNoThread
}

// waits says whether the bot asked something, which the words may answer.
func (s *Session) waits() bool { return s.Self.Expect != nil && s.Now.Before(s.Self.Expect.Until) }
