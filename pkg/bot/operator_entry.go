package bot

import (
	"cmp"
	"context"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
)

// Actions about entries.
const (
	actEntries    = "el"
	actEntry      = "e"
	actEntryEnd   = "ev"
	actEntryEnded = "eV"
)

func opEntries() Routes {
	return Routes{
		Commands: []Command{
			operates("entries", func(ctx context.Context, s *Session, _ string) error { return listEntries(ctx, s, "") }),
			operates("entry", verbs("entry", func(ctx context.Context, s *Session, ref string) error { return showEntry(ctx, s, ref, "") }, map[string]verb{
				"revoke": one(func(ctx context.Context, s *Session, ref string) error { return endEntry(ctx, s, ref, "") }),
				"ban":    one(func(ctx context.Context, s *Session, ref string) error { return endEntry(ctx, s, ref, ban) }),
			})),
		},
		Actions: []Action{
			looks(actEntries, by(listEntries)),
			looks(actEntry, by(func(ctx context.Context, s *Session, ref string) error { return showEntry(ctx, s, ref, "") })),
			looks(actEntryEnd, func(ctx context.Context, s *Session, args []string) error {
				return endEntry(ctx, s, arg(args, 0), arg(args, 1))
			}),
			deed(actEntryEnded, func(ctx context.Context, s *Session, args []string) error {
				return revokeEntry(ctx, s, arg(args, 0), arg(args, 1) == ban)
			}),
		},
	}
}

// entryState is one of the texts under op.state.
func entryState(e admin.EntryView) string {
	switch {
	case e.Banned:
		return "banned"
	case e.Revoked:
		return "revoked"
	case e.Status != nil && e.Status.Connected:
		return "online"
	}
	return "offline"
}

func (s *Session) entryMark(e admin.EntryView) string {
	switch state := entryState(e); {
	case e.Revoked:
		return s.mark("off")
	case state == "offline":
		return s.mark("bad")
	case e.Status.Failure != "":
		return s.mark("warn")
	}
	return s.mark("good")
}

// allEntries are all, those that are gone last.
func allEntries(ctx context.Context, s *Session) ([]admin.EntryView, error) {
	list, err := all(ctx, s, admin.EntryList, whole)
	order := []string{"offline", "online", "revoked", "banned"}
	slices.SortFunc(list, func(a, b admin.EntryView) int {
		return cmp.Or(cmp.Compare(slices.Index(order, entryState(a)), slices.Index(order, entryState(b))), byName(a.Name, b.Name))
	})
	return list, err
}

func listEntries(ctx context.Context, s *Session, page string) error {
	list, err := allEntries(ctx, s)
	if err != nil {
		return err
	}
	p := s.paged(page, len(list), actEntries)
	text := p.title(s.T.HTML("op.entry.title"))
	if len(list) == 0 {
		text = noted(text, s.T.HTML("op.entry.none"))
	}
	rows := p.rows(func(i int) Button {
		e := list[i]
		return Button{Label: s.T.Plain("op.entry.line", "mark", s.entryMark(e), "name", e.Name), Action: actEntry, Args: []string{string(e.ID)}}
	})
	if s.mayChange() {
		rows = append(rows, Row(s.button("add", actTokenEntry)))
	}
	return s.Show(ctx, Screen{Text: text, Rows: append(rows, Row(s.back(actStatus), Button{Label: s.T.Plain("button.refresh"), Action: actEntries}))})
}

func showEntry(ctx context.Context, s *Session, ref, note string) error {
	e, err := Call(ctx, s, admin.EntryGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(e.ID)
	var rows [][]Button
	if s.mayChange() && !e.Revoked {
		rows = append(rows, Row(s.button("revoke", actEntryEnd, id), s.button("ban", actEntryEnd, id, ban)))
	}
	rows = append(rows, Row(s.back(actEntries), Button{Label: s.T.Plain("button.refresh"), Action: actEntry, Args: []string{id}}))
	return s.Show(ctx, Screen{Text: noted(note, s.entryText(e)), Rows: rows})
}

func (s *Session) entryText(e admin.EntryView) string {
	var l lines
	l.add(s.T.HTML("op.core.card", "mark", s.entryMark(e), "name", e.Name, "state", s.state(entryState(e))))
	l.gap()
	if !e.Revoked {
		s.nodeLines(&l, e.Status, e.CertEnds)
	}
	if e.Status != nil && e.Status.Observed.IsValid() {
		l.add(s.T.HTML("op.core.addresses", "addresses", e.Status.Observed.Addr()))
	}
	if e.Version != "" {
		l.add(s.T.HTML("op.core.version", "version", e.Version, "day", s.T.Day(e.Joined)))
	}
	return l.String()
}

// endEntry says what it means to revoke or to ban an entry, and asks.
func endEntry(ctx context.Context, s *Session, ref, how string) error {
	e, err := Call(ctx, s, admin.EntryGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	list, err := allEntries(ctx, s)
	if err != nil {
		return err
	}
	others := 0
	for _, o := range list {
		if o.ID != e.ID && entryState(o) == "online" {
			others++
		}
	}
	key := "revoke"
	if how == ban {
		key = "ban"
	}
	id := string(e.ID)
	text := s.T.HTML("op.entry."+key, "name", e.Name, "n", streamsOf(e.Status), "online", s.T.Plain("op.entry.online-others", "n", others))
	return s.sure(ctx, text, s.back(actEntry, id), s.button(key, actEntryEnded, id, how))
}

func revokeEntry(ctx context.Context, s *Session, id string, ban bool) error {
	_, err := Call(ctx, s, admin.EntryRevoke, admin.RevokeRequest{Ref: id, Ban: ban})
	return s.after(err, refused(ban), func(note string) error { return showEntry(ctx, s, id, note) })
}
