package bot

import (
	"context"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// operatorRoutes are what operators do: the network at one glance, and all in it.
func operatorRoutes() Routes {
	return join(
		opStatus(), opMembers(), opMemberChanges(), opDevices(), opDeviceChanges(), opDevicePlaces(), opLimits(),
		opCores(), opEntries(), opCells(), opTokens(), opBackups(), opAlerts(), opBroadcast(),
	)
}

// looks is an action that shows something. Whoever goes elsewhere answers no
// question any more.
func looks(name string, do func(context.Context, *Session, []string) error) Action {
	return Action{Name: name, Need: mesh.BotOperator, Do: func(ctx context.Context, s *Session, args []string) error {
		if err := s.forget(ctx); err != nil {
			return err
		}
		return do(ctx, s, args)
	}}
}

// deed is an action that changes something.
func deed(name string, do func(context.Context, *Session, []string) error) Action {
	return Action{Name: name, Need: mesh.BotOperator, Changes: true, Do: do}
}

// operates is a command of operators.
func operates(name string, do func(context.Context, *Session, string) error) Command {
	return Command{Name: name, Need: mesh.BotOperator, Do: do}
}

// answers is what is done with an operator's words.
func answers(question string, do func(ctx context.Context, s *Session, data, text string) error) Answer {
	return Answer{Question: question, Need: mesh.BotOperator, Do: do}
}

// arg is the argument of a button at a place; "" when the button has fewer, since
// another version of the bot wrote it.
func arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// by is an action about one thing, which its first argument names.
func by(show func(context.Context, *Session, string) error) func(context.Context, *Session, []string) error {
	return func(ctx context.Context, s *Session, args []string) error { return show(ctx, s, arg(args, 0)) }
}

// mayChange says whether the user's administrator may change anything at all.
func (s *Session) mayChange() bool { return s.Self.Role.Includes(mesh.AdminOperator) }

// button makes one of an operator's, with a label of the texts.
func (s *Session) button(label, action string, args ...string) Button {
	return Button{Label: s.T.Plain("op.button." + label), Action: action, Args: args}
}

// back leads to a screen that was before.
func (s *Session) back(action string, args ...string) Button {
	return Button{Label: s.T.Plain("button.back"), Action: action, Args: args}
}

// mark is a sign that is seen before anything is read.
func (s *Session) mark(name string) string { return s.T.Plain("op.mark." + name) }

func (s *Session) state(name string) string {
	if key := "op.state." + name; s.T.Has(key) {
		return s.T.Plain(key)
	}
	return name
}

// after follows a change: it shows how things are now with what was done above, or
// that it was done before.
func (s *Session) after(err error, done string, show func(note string) error) error {
	switch {
	case Done(err):
		return show(s.T.HTML("op.done.already"))
	case err != nil:
		return err
	}
	return show(s.T.HTML("op.done." + done))
}

// noted puts a note above a text.
func noted(note, text string) string {
	if note == "" {
		return text
	}
	return note + "\n\n" + text
}

// labelled bounds a label of a button, which apps cut anyhow.
func labelled(s string) string {
	const most = 48
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// sure asks for the second tap, which does it; the first button leads away.
func (s *Session) sure(ctx context.Context, text string, leave, do Button) error {
	leave.Label = s.T.Plain("button.cancel")
	return s.Show(ctx, Screen{Text: text, Rows: [][]Button{Row(leave), Row(do)}})
}

// all reads a list to its end, or to where no chat can show it any more.
func all[Req, T any](ctx context.Context, s *Session, m admin.Method[Req, admin.List[T]], req func(admin.Page) Req) ([]T, error) {
	const most, pages = 1000, 20
	var out []T
	page := admin.Page{Limit: most}
	for range pages {
		l, err := Call(ctx, s, m, req(page))
		if err != nil {
			return nil, err
		}
		out = append(out, l.Items...)
		if l.Next == "" {
			break
		}
		page.After = l.Next
	}
	return out, nil
}

// whole is the request of a list without a filter.
func whole(p admin.Page) admin.Page { return p }

// byName compares names as people look for them.
func byName(a, b string) int {
	if c := strings.Compare(strings.ToLower(a), strings.ToLower(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
