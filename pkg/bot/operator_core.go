package bot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions about cores.
const (
	actCores     = "cl"
	actCore      = "c"
	actCoreEnd   = "cv"
	actCoreEnded = "cV"
	actCoreDrain = "cd"
)

// ban stands for it in a button's data.
const ban = "b"

func opCores() Routes {
	drain := func(to string) verb {
		return one(func(ctx context.Context, s *Session, ref string) error { return drainCore(ctx, s, ref, to == "1") })
	}
	return Routes{
		Commands: []Command{
			operates("cores", func(ctx context.Context, s *Session, _ string) error { return listCores(ctx, s, "") }),
			operates("core", verbs("core", func(ctx context.Context, s *Session, ref string) error { return showCore(ctx, s, ref, "") }, map[string]verb{
				"drain": drain("1"), "resume": drain("0"),
				"revoke": one(func(ctx context.Context, s *Session, ref string) error { return endCore(ctx, s, ref, "") }),
				"ban":    one(func(ctx context.Context, s *Session, ref string) error { return endCore(ctx, s, ref, ban) }),
			})),
		},
		Actions: []Action{
			looks(actCores, by(listCores)),
			looks(actCore, by(func(ctx context.Context, s *Session, ref string) error { return showCore(ctx, s, ref, "") })),
			looks(actCoreEnd, func(ctx context.Context, s *Session, args []string) error {
				return endCore(ctx, s, arg(args, 0), arg(args, 1))
			}),
			deed(actCoreEnded, func(ctx context.Context, s *Session, args []string) error {
				return revokeCore(ctx, s, arg(args, 0), arg(args, 1) == ban)
			}),
			deed(actCoreDrain, func(ctx context.Context, s *Session, args []string) error {
				return drainCore(ctx, s, arg(args, 0), arg(args, 1) == "1")
			}),
		},
	}
}

// allCores are all, those that are not as they should be first.
func allCores(ctx context.Context, s *Session) ([]admin.CoreView, error) {
	list, err := all(ctx, s, admin.CoreList, whole)
	order := []mesh.CoreState{mesh.CoreLost, mesh.CoreJoined, mesh.CoreDraining, mesh.CoreReady, mesh.CoreRevoked}
	slices.SortFunc(list, func(a, b admin.CoreView) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)), byName(a.Name, b.Name))
	})
	return list, err
}

func listCores(ctx context.Context, s *Session, page string) error {
	list, err := allCores(ctx, s)
	if err != nil {
		return err
	}
	p := s.paged(page, len(list), actCores)
	text := p.title(s.T.HTML("op.core.title"))
	if len(list) == 0 {
		text = noted(text, s.T.HTML("op.core.none"))
	}
	rows := p.rows(func(i int) Button {
		return Button{Label: s.coreLabel(list[i]), Action: actCore, Args: []string{string(list[i].ID)}}
	})
	if s.mayChange() {
		rows = append(rows, Row(s.button("add", actTokenMember)))
	}
	return s.Show(ctx, Screen{Text: text, Rows: append(rows, Row(s.back(actStatus), Button{Label: s.T.Plain("button.refresh"), Action: actCores}))})
}

func (s *Session) coreLabel(c admin.CoreView) string {
	return labelled(s.T.Plain("op.core.line", "mark", s.coreMark(c), "name", c.Name, "cell", c.CellName))
}

func (s *Session) coreMark(c admin.CoreView) string {
	switch {
	case c.State == mesh.CoreRevoked:
		return s.mark("off")
	case c.State == mesh.CoreLost:
		return s.mark("bad")
	case c.State != mesh.CoreReady, c.Status != nil && c.Status.Failure != "":
		return s.mark("warn")
	}
	return s.mark("good")
}

func showCore(ctx context.Context, s *Session, ref, note string) error {
	c, err := Call(ctx, s, admin.CoreGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	return s.Show(ctx, Screen{Text: noted(note, s.coreText(c)), Rows: s.coreRows(c)})
}

func (s *Session) coreText(c admin.CoreView) string {
	t := s.T
	state := string(c.State)
	if c.Banned {
		state = "banned"
	}
	var l lines
	l.add(t.HTML("op.core.card", "mark", s.coreMark(c), "name", c.Name, "state", s.state(state)))
	if c.Reason != "" {
		l.add(t.HTML("op.core.reason", "reason", c.Reason))
	}
	l.add(t.HTML("op.core.of", "member", c.MemberName, "cell", c.CellName))
	l.gap()
	if len(c.Addresses) > 0 {
		l.add(t.HTML("op.core.addresses", "addresses", strings.Trim(fmt.Sprint(c.Addresses), "[]")))
	}
	if !c.Revoked {
		s.nodeLines(&l, c.Status, c.CertEnds)
	}
	l.add(traffic(t, "op.core.traffic", c.Used))
	if c.Version != "" {
		l.add(t.HTML("op.core.version", "version", c.Version, "day", t.Day(c.Joined)))
	}
	return l.String()
}

// nodeLines are what is known of a core or an entry by its reports.
func (s *Session) nodeLines(l *lines, st *mesh.NodeStatus, certEnds time.Time) {
	t := s.T
	if st == nil {
		l.add(t.HTML("op.core.never-seen"))
		return
	}
	if st.Connected {
		l.add(t.HTML("op.core.seen-now"))
		l.add(t.HTML("op.core.streams", "n", st.Streams))
	} else {
		l.add(t.HTML("op.core.seen", "when", t.Ago(st.LastSeen, s.Now)))
	}
	if st.Failure != "" {
		l.add(t.HTML("op.core.failure", "reason", st.Failure))
	}
	if off := st.ClockOff.Abs(); off >= time.Second {
		l.add(t.HTML("op.core.clock", "span", t.Span(off)))
	}
	if !certEnds.IsZero() {
		l.add(t.HTML("op.core.cert", "mark", s.ending(certEnds), "day", t.Day(certEnds), "left", t.Left(certEnds, s.Now)))
	}
}

func (s *Session) coreRows(c admin.CoreView) [][]Button {
	id := string(c.ID)
	var rows [][]Button
	if s.mayChange() && !c.Revoked {
		drain := s.button("drain", actCoreDrain, id, "1")
		if c.Drain {
			drain = s.button("undrain", actCoreDrain, id, "0")
		}
		rows = append(rows, Row(drain), Row(s.button("revoke", actCoreEnd, id), s.button("ban", actCoreEnd, id, ban)))
	}
	return append(rows,
		Row(s.button("member-of", actMember, string(c.Member)), s.button("cell-of", actCell, string(c.Cell))),
		Row(s.back(actCores), Button{Label: s.T.Plain("button.refresh"), Action: actCore, Args: []string{id}}))
}

// endCore says what it means to revoke or to ban a core, and asks.
func endCore(ctx context.Context, s *Session, ref, how string) error {
	c, err := Call(ctx, s, admin.CoreGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	cell, err := Call(ctx, s, admin.CellGet, admin.Ref{Ref: string(c.Cell)})
	if err != nil {
		return err
	}
	ready := cell.CoresReady
	if c.State == mesh.CoreReady {
		ready--
	}
	key := "revoke"
	if how == ban {
		key = "ban"
	}
	id := string(c.ID)
	text := s.T.HTML("op.core."+key, "name", c.Name, "member", c.MemberName, "n", streamsOf(c.Status), "cell", c.CellName,
		"ready", s.T.Plain("op.core.ready-others", "n", ready))
	return s.sure(ctx, text, s.back(actCore, id), s.button(key, actCoreEnded, id, how))
}

// streamsOf are the connections that are cut with a node.
func streamsOf(st *mesh.NodeStatus) int64 {
	if st == nil || !st.Connected {
		return 0
	}
	return st.Streams
}

func revokeCore(ctx context.Context, s *Session, id string, ban bool) error {
	_, err := Call(ctx, s, admin.CoreRevoke, admin.RevokeRequest{Ref: id, Ban: ban})
	return s.after(err, refused(ban), func(note string) error { return showCore(ctx, s, id, note) })
}

// refused is which text says that somebody was.
func refused(ban bool) string {
	if ban {
		return "banned"
	}
	return "revoked"
}

func drainCore(ctx context.Context, s *Session, ref string, drain bool) error {
	done := "undrained"
	if drain {
		done = "draining"
	}
	_, err := Call(ctx, s, admin.CoreSet, admin.CoreSetRequest{Ref: ref, Drain: &drain})
	return s.after(err, done, func(note string) error { return showCore(ctx, s, ref, note) })
}
