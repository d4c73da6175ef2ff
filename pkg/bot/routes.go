package bot

import (
	"context"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Command is what somebody writes with a slash. Its description is the text
// "command.<name>"; one without is not offered by apps.
type Command struct {
	Name string
	Need mesh.BotStanding
	Do   func(ctx context.Context, s *Session, rest string) error
}

// Action is what a button does.
type Action struct {
	Name string // short: it is part of a button's data
	Need mesh.BotStanding
	// Changes: its buttons work once, for ten minutes.
	Changes bool
	Do      func(ctx context.Context, s *Session, args []string) error
}

// Answer is what is done with the words that Session.Ask asked for. An error of
// the kind ErrInvalid, ErrExists or ErrNotFound leaves the question open.
type Answer struct {
	Question string
	Need     mesh.BotStanding
	Do       func(ctx context.Context, s *Session, data, text string) error
}

// Routes are what the bot does with what comes.
type Routes struct {
	Commands []Command
	Actions  []Action
	Answers  []Answer
	// Reply is for words that are a reply to a message of the bot's; ErrNotFound:
	// it is about nothing, and the words are taken as if they were no reply.
	Reply func(ctx context.Context, s *Session, to int64, text string) error
	// Talk is for all other words, and for whoever presses nothing.
	Talk func(ctx context.Context, s *Session, text string) error
	// Notice is the screen of a notice; nil: it names the kind.
	Notice func(s *Session, n mesh.Notice) Screen
}

// join makes one of several.
func join(parts ...Routes) Routes {
	var all Routes
	for _, p := range parts {
		all.Commands = append(all.Commands, p.Commands...)
		all.Actions = append(all.Actions, p.Actions...)
		all.Answers = append(all.Answers, p.Answers...)
		if p.Reply != nil {
			all.Reply = p.Reply
		}
		if p.Talk != nil {
			all.Talk = p.Talk
		}
		if p.Notice != nil {
			all.Notice = p.Notice
		}
	}
	return all
}

func (r Routes) notice(s *Session, n mesh.Notice) Screen {
	if r.Notice != nil {
		return r.Notice(s, n)
	}
	return Screen{Text: s.T.HTML("notice.other", "kind", string(n.Kind))}
}

// index is Routes by name.
type index struct {
	Routes
	commands map[string]Command
	actions  map[string]Action
	answers  map[string]Answer
}

func newIndex(r Routes) (index, error) {
	x := index{Routes: r, commands: map[string]Command{}, actions: map[string]Action{}, answers: map[string]Answer{}}
	var err error
	for _, c := range r.Commands {
		err = put(x.commands, c.Name, c, err)
	}
	for _, a := range r.Actions {
		err = put(x.actions, a.Name, a, err)
	}
	for _, a := range r.Answers {
		err = put(x.answers, a.Question, a, err)
	}
	return x, err
}

func put[T any](m map[string]T, name string, v T, err error) error {
	if _, ok := m[name]; ok && err == nil {
		err = fmt.Errorf("bot: routes: %s is there twice: %w", name, mesh.ErrInvalid)
	}
	m[name] = v
	return err
}
