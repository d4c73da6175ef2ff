package bot

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// chooseLife is how long a token lives unless somebody says otherwise.
const tokenLife = "1h"

// lives are those that buttons offer. A bot's tokens live a day at most.
func lives() []string { return []string{"10m", tokenLife, "6h", "24h"} }

const minTokenLife, maxTokenLife = time.Minute, 24 * time.Hour

// joinLines are what is run where somebody joins. The shell keeps what it echoes
// out of the list of processes.
func joinLine(role mesh.Role, token string) string {
	command := "core join"
	if role == mesh.RoleEntry {
		command = "entry run"
	}
	return "echo " + token + " | meshctl " + command + " --token-file -"
}

func newToken(ctx context.Context, s *Session) error {
	return s.Show(ctx, Screen{Text: s.T.HTML("op.token.new"), Rows: [][]Button{
		Row(s.button("token-core", actTokenMember), s.button("token-entry", actTokenEntry)), Row(s.back(actTokens)),
	}})
}

// chooseOwner asks whose core it is.
func chooseOwner(ctx context.Context, s *Session, page string) error {
	list, err := allMembers(ctx, s)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(m admin.MemberView) bool { return m.State == mesh.MemberArchived })
	if len(list) == 0 {
		return s.Show(ctx, Screen{Text: s.T.HTML("op.token.nobody"), Rows: [][]Button{Row(s.back(actTokens))}})
	}
	p := s.paged(page, len(list), actTokenMember)
	rows := p.rows(func(i int) Button {
		return Button{Label: list[i].Name, Action: actTokenCell, Args: []string{string(list[i].ID)}}
	})
	return s.Show(ctx, Screen{Text: p.title(s.T.HTML("op.token.member")), Rows: append(rows, Row(s.back(actTokens)))})
}

// chooseTokenCell asks which cell the core serves.
func chooseTokenCell(ctx context.Context, s *Session, member, page string) error {
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: member})
	if err != nil {
		return err
	}
	list, err := allCells(ctx, s)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return s.Show(ctx, Screen{Text: s.T.HTML("op.token.no-cell"), Rows: [][]Button{Row(s.back(actTokenMember))}})
	}
	p := s.paged(page, len(list), actTokenCell, member)
	rows := p.rows(func(i int) Button {
		return Button{Label: s.cellLabel(list[i]), Action: actTokenLife, Args: []string{member, string(list[i].ID)}}
	})
	return s.Show(ctx, Screen{Text: p.title(s.T.HTML("op.token.cell", "member", m.Name)), Rows: append(rows, Row(s.back(actTokenMember)))})
}

// chooseLife asks for how long the token can be used. Without a member it is for an
// entry.
func chooseLife(ctx context.Context, s *Session, member, cell string) error {
	text, back := s.T.HTML("op.token.life-entry"), s.back(actTokens)
	if member != "" {
		m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: member})
		if err != nil {
			return err
		}
		c, err := Call(ctx, s, admin.CellGet, admin.Ref{Ref: cell})
		if err != nil {
			return err
		}
		text, back = s.T.HTML("op.token.life", "member", m.Name, "cell", c.Name), s.back(actTokenCell, member)
	}
	var row []Button
	for _, life := range lives() {
		b := Button{Label: life, Action: actTokenMake, Args: []string{life}}
		if d, err := mesh.ParseSpan(life); err == nil {
			b.Label = s.T.Span(d)
		}
		if member != "" {
			b.Args = append(b.Args, member, cell)
		}
		row = append(row, b)
	}
	return s.Show(ctx, Screen{Text: text, Rows: [][]Button{row[:2], row[2:], Row(back)}})
}

// makeToken makes a token and shows it, this once, in a message of its own, which
// the server has deleted when the token is used or has ended.
func makeToken(ctx context.Context, s *Session, life, member, cell string) error {
	if err := s.SecretsAllowed(); err != nil {
		return err
	}
	d, err := mesh.ParseSpan(life)
	if err != nil || d < minTokenLife || d > maxTokenLife {
		_, err := s.Say(ctx, Screen{Text: s.T.HTML("op.token.bad-life")})
		return err
	}
	req := admin.TokenCreateRequest{Role: mesh.RoleEntry, Life: mesh.Duration(d)}
	if member != "" {
		req.Role, req.Member, req.Cell = mesh.RoleCore, member, cell
	}
	v, err := Call(ctx, s, admin.TokenCreate, req)
	if Done(err) {
		return listTokens(ctx, s, "", s.T.HTML("op.token.lost"))
	}
	if err != nil {
		return err
	}
	return handOut(ctx, s, v)
}

func handOut(ctx context.Context, s *Session, v admin.TokenCreated) error {
	n, err := allNames(ctx, s)
	if err != nil {
		return err
	}
	if err := showToken(ctx, s, string(v.ID), s.T.HTML("op.token.shown")); err != nil {
		return err
	}
	text := s.T.HTML("op.token.created", "what", s.whatJoins(v.TokenView, n),
		"moment", s.T.Moment(v.Expires), "line", joinLine(v.Role, strings.TrimSpace(v.Token)))
	message, err := s.Secret(ctx, Screen{Text: text})
	if err != nil {
		return err
	}
	_, err = Call(ctx, s, admin.BotShown, mesh.TelegramShown{Token: v.ID, Chat: s.User.String(), Message: message, Expires: v.Expires})
	if err != nil && !Done(err) {
		// Nobody would take the message away: better there is none.
		if removed := s.Remove(ctx, message); removed != nil {
			return removed
		}
		return err
	}
	return nil
}
