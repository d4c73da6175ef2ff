package bot

import (
	"cmp"
	"context"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions about join tokens.
const (
	actTokens      = "tl"
	actToken       = "t"
	actTokenNew    = "tn"
	actTokenMember = "tm"
	actTokenCell   = "tc"
	actTokenLife   = "tf"
	actTokenEntry  = "te"
	actTokenMake   = "tk"
	actTokenRevoke = "tx"
)

func opTokens() Routes {
	return Routes{
		Commands: []Command{
			operates("tokens", func(ctx context.Context, s *Session, _ string) error { return listTokens(ctx, s, "", "") }),
			operates("token", tokenCommand),
		},
		Actions: []Action{
			looks(actTokens, by(func(ctx context.Context, s *Session, page string) error { return listTokens(ctx, s, page, "") })),
			looks(actToken, by(func(ctx context.Context, s *Session, id string) error { return showToken(ctx, s, id, "") })),
			looks(actTokenNew, by(func(ctx context.Context, s *Session, _ string) error { return newToken(ctx, s) })),
			looks(actTokenMember, by(chooseOwner)),
			looks(actTokenCell, func(ctx context.Context, s *Session, args []string) error {
				return chooseTokenCell(ctx, s, arg(args, 0), arg(args, 1))
			}),
			looks(actTokenLife, func(ctx context.Context, s *Session, args []string) error {
				return chooseLife(ctx, s, arg(args, 0), arg(args, 1))
			}),
			looks(actTokenEntry, by(func(ctx context.Context, s *Session, _ string) error { return chooseLife(ctx, s, "", "") })),
			deed(actTokenMake, func(ctx context.Context, s *Session, args []string) error {
				return makeToken(ctx, s, arg(args, 0), arg(args, 1), arg(args, 2))
			}),
			deed(actTokenRevoke, by(revokeToken)),
		},
	}
}

func tokenCommand(ctx context.Context, s *Session, rest string) error {
	words := splitWords(rest)
	word := func(i int) string { return arg(words, i) }
	switch {
	case len(words) == 0:
		return newToken(ctx, s)
	case word(0) == string(mesh.RoleEntry) && len(words) <= 2:
		return makeToken(ctx, s, cmp.Or(word(1), tokenLife), "", "")
	case word(0) == string(mesh.RoleCore) && (len(words) == 3 || len(words) == 4):
		return makeToken(ctx, s, cmp.Or(word(3), tokenLife), word(1), word(2))
	case word(0) == "revoke" && len(words) == 2:
		return revokeToken(ctx, s, word(1))
	case len(words) == 1 && mesh.IsID(word(0)):
		return showToken(ctx, s, word(0), "")
	}
	return usage(ctx, s, "token")
}

// allNames are how members and cells are called.
type names struct {
	members map[mesh.MemberID]string
	cells   map[mesh.CellID]string
}

func allNames(ctx context.Context, s *Session) (names, error) {
	n := names{map[mesh.MemberID]string{}, map[mesh.CellID]string{}}
	members, err := all(ctx, s, admin.MemberList, whole)
	if err != nil {
		return n, err
	}
	for _, m := range members {
		n.members[m.ID] = m.Name
	}
	cells, err := all(ctx, s, admin.CellList, whole)
	for _, c := range cells {
		n.cells[c.ID] = c.Name
	}
	return n, err
}

// whatJoins is what a token is for, as far as that is known.
func (s *Session) whatJoins(v admin.TokenView, n names) string {
	what := s.T.Plain("op.token.role." + string(v.Role))
	switch {
	case v.Name != "":
		return what + " " + v.Name
	case v.Role == mesh.RoleCore:
		return what + " " + cmp.Or(n.members[v.Member], string(v.Member)) + " · " + cmp.Or(n.cells[v.Cell], string(v.Cell))
	}
	return what
}

// listTokens lists those that can still be used.
func listTokens(ctx context.Context, s *Session, page, note string) error {
	list, err := all(ctx, s, admin.TokenList, whole)
	if err != nil {
		return err
	}
	n, err := allNames(ctx, s)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(v admin.TokenView) bool { return v.State != mesh.TokenUnused })
	slices.SortFunc(list, func(a, b admin.TokenView) int { return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID)) })
	p := s.paged(page, len(list), actTokens)
	var l lines
	l.add(p.title(s.T.HTML("op.token.title")))
	l.gap()
	if len(list) == 0 {
		l.add(s.T.HTML("op.token.none"))
	}
	from, to := p.span()
	for _, v := range list[from:to] {
		l.add(s.T.HTML("op.token.line", "what", s.whatJoins(v, n), "left", s.T.Left(v.Expires, s.Now)))
	}
	rows := p.rows(func(i int) Button {
		return Button{Label: s.whatJoins(list[i], n), Action: actToken, Args: []string{string(list[i].ID)}}
	})
	if s.mayChange() {
		rows = append(rows, Row(s.button("token-core", actTokenMember), s.button("token-entry", actTokenEntry)))
	}
	return s.Show(ctx, Screen{Text: noted(note, l.String()), Rows: append(rows, Row(s.back(actStatus)))})
}

func showToken(ctx context.Context, s *Session, id, note string) error {
	v, err := Call(ctx, s, admin.TokenGet, admin.Ref{Ref: id})
	if err != nil {
		return err
	}
	n, err := allNames(ctx, s)
	if err != nil {
		return err
	}
	var rows [][]Button
	if s.mayChange() && v.State == mesh.TokenUnused {
		rows = append(rows, Row(s.button("revoke", actTokenRevoke, id)))
	}
	return s.Show(ctx, Screen{Text: noted(note, s.tokenText(v, n)), Rows: append(rows, Row(s.back(actTokens)))})
}

// tokenState is the name of a state in op.state, whose words agree with a token in
// languages that have genders.
func tokenState(state mesh.TokenState) string {
	if state == mesh.TokenRevoked {
		return "token-revoked"
	}
	return string(state)
}

func (s *Session) tokenText(v admin.TokenView, n names) string {
	t := s.T
	var l lines
	l.add(t.HTML("op.token.card", "what", s.whatJoins(v, n)))
	l.add(t.HTML("op.token.state", "state", s.state(tokenState(v.State))))
	if v.Role == mesh.RoleCore {
		l.add(t.HTML("op.token.for", "member", n.members[v.Member], "cell", n.cells[v.Cell]))
	}
	l.add(t.HTML("op.token.made", "when", t.Ago(v.Created, s.Now), "by", v.By))
	if v.State == mesh.TokenUnused {
		l.add(t.HTML("op.token.ends", "moment", t.Moment(v.Expires), "left", t.Left(v.Expires, s.Now)))
	}
	if u := v.Used; u != nil {
		l.add(t.HTML("op.token.used", "when", t.Ago(u.At, s.Now), "node", u.Node, "from", u.From))
	}
	return l.String()
}

func revokeToken(ctx context.Context, s *Session, id string) error {
	_, err := Call(ctx, s, admin.TokenRevoke, admin.Ref{Ref: id})
	if err != nil && !Done(err) {
		return err
	}
	return showToken(ctx, s, id, s.T.HTML("op.token.revoked"))
}
