package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/admin"
)

// Actions about what is written to members.
const (
	actBroadcast     = "w"
	actBroadcastTo   = "wt"
	actBroadcastSend = "wS"
)

// maxBroadcast is how many letters a broadcast has, as the server wants it.
const maxBroadcast = 2000

func opBroadcast() Routes {
	return Routes{
		Commands: []Command{operates("broadcast", func(ctx context.Context, s *Session, rest string) error {
			if rest == "" {
				return chooseReaders(ctx, s, "")
			}
			c, err := Call(ctx, s, admin.CellGet, admin.Ref{Ref: strings.Join(splitWords(rest), " ")})
			if err != nil {
				return err
			}
			return askBroadcast(ctx, s, string(c.ID))
		})},
		Actions: []Action{
			looks(actBroadcast, by(chooseReaders)),
			looks(actBroadcastTo, by(askBroadcast)),
			deed(actBroadcastSend, by(sendBroadcast)),
		},
		Answers: []Answer{answers("op-broadcast", previewBroadcast)},
	}
}

// chooseReaders asks to whom shall be written.
func chooseReaders(ctx context.Context, s *Session, page string) error {
	cells, err := allCells(ctx, s)
	if err != nil {
		return err
	}
	p := s.paged(page, len(cells), actBroadcast)
	rows := append([][]Button{Row(s.button("all", actBroadcastTo))}, p.rows(func(i int) Button {
		return Button{Label: s.cellLabel(cells[i]), Action: actBroadcastTo, Args: []string{string(cells[i].ID)}}
	})...)
	return s.Show(ctx, Screen{Text: s.T.HTML("op.broadcast.title"), Rows: append(rows, Row(s.back(actStatus)))})
}

// readersOf says who is written to.
func readersOf(ctx context.Context, s *Session, cell string) (string, error) {
	if cell == "" {
		return s.T.Plain("op.broadcast.all"), nil
	}
	c, err := Call(ctx, s, admin.CellGet, admin.Ref{Ref: cell})
	return s.T.Plain("op.broadcast.cell", "cell", c.Name), err
}

func askBroadcast(ctx context.Context, s *Session, cell string) error {
	if !s.mayChange() {
		return s.Show(ctx, Screen{Text: s.T.HTML("op.read-only"), Rows: [][]Button{Row(s.back(actStatus))}})
	}
	to, err := readersOf(ctx, s, cell)
	if err != nil {
		return err
	}
	return s.Ask(ctx, "op-broadcast", cell, Screen{Text: s.T.HTML("op.broadcast.ask", "to", to), Rows: [][]Button{Row(s.back(actBroadcast))}})
}

// previewBroadcast shows the text as its readers will see it, and says how many
// they are. It is kept with the question until it is sent, so that a second text
// takes the place of the first.
func previewBroadcast(ctx context.Context, s *Session, data, text string) error {
	cell, _, _ := strings.Cut(data, "\n")
	if utf8.RuneCountInString(text) > maxBroadcast {
		return s.Ask(ctx, "op-broadcast", cell, Screen{Text: s.T.HTML("op.broadcast.long", "n", maxBroadcast), Rows: [][]Button{Row(s.back(actBroadcast))}})
	}
	to, err := readersOf(ctx, s, cell)
	if err != nil {
		return err
	}
	v, err := Call(ctx, s, admin.BotBroadcast, admin.BotBroadcastRequest{Cell: cell, Text: text})
	if err != nil {
		return err
	}
	if v.Recipients == 0 {
		return s.Show(ctx, Screen{Text: s.T.HTML("op.broadcast.nobody", "to", to), Rows: [][]Button{Row(s.back(actBroadcast))}})
	}
	var l lines
	l.add(s.T.HTML("op.broadcast.preview", "to", to, "n", s.T.Plain("op.broadcast.people", "n", v.Recipients)))
	if v.Unlinked > 0 {
		l.add(s.T.HTML("op.broadcast.unlinked", "n", v.Unlinked))
	}
	l.gap()
	l.add(s.T.HTML("notice.broadcast", "text", text))
	if _, err := s.Say(ctx, Screen{Text: l.String()}); err != nil {
		return err
	}
	n := s.T.Plain("op.broadcast.people", "n", v.Recipients)
	send := s.button("send", actBroadcastSend, digest(text))
	send.Label = s.T.Plain("op.button.send", "n", n)
	return s.Ask(ctx, "op-broadcast", cell+"\n"+text, Screen{
		Text: s.T.HTML("op.broadcast.confirm", "n", n), Rows: [][]Button{Row(send), Row(s.cancelTo(actStatus))},
	})
}

func (s *Session) cancelTo(action string) Button {
	return Button{Label: s.T.Plain("button.cancel"), Action: action}
}

// digest tells texts apart: a button sends none but the one below which it stood.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// sendBroadcast sends the text that was shown.
func sendBroadcast(ctx context.Context, s *Session, shown string) error {
	q := s.Self.Expect
	gone := Screen{Text: s.T.HTML("op.broadcast.gone"), Rows: [][]Button{Row(s.back(actStatus))}}
	if q == nil || q.Asked != "op-broadcast" {
		return s.Show(ctx, gone)
	}
	cell, text, ok := strings.Cut(q.Data, "\n")
	if !ok || digest(text) != shown {
		return s.Show(ctx, gone)
	}
	v, err := Call(ctx, s, admin.BotBroadcast, admin.BotBroadcastRequest{Cell: cell, Text: text, Send: true})
	note := s.T.HTML("op.done.already")
	switch {
	case err == nil:
		note = s.T.HTML("op.broadcast.sent", "n", v.Recipients)
	case !Done(err):
		return err
	}
	if err := s.Show(ctx, Screen{Text: note, Rows: [][]Button{Row(s.back(actStatus))}}); err != nil {
		return err
	}
	return s.forget(ctx)
}
