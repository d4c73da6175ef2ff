package bot

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions about members that change nothing.
const (
	actMembers      = "ml"
	actMember       = "m"
	actMemberSearch = "mq"
	actMemberAdd    = "ma"
	actMemberLimits = "mL"
	actMemberLimit  = "mN"
	actMemberEnd    = "mA"
)

// maxFound is how many members a search shows.
const maxFound = 24

func opMembers() Routes {
	return Routes{
		Commands: []Command{
			operates("members", func(ctx context.Context, s *Session, rest string) error {
				if rest != "" {
					return findMembers(ctx, s, rest)
				}
				return listMembers(ctx, s, "")
			}),
		},
		Actions: []Action{
			looks(actMembers, by(listMembers)),
			looks(actMember, by(func(ctx context.Context, s *Session, ref string) error { return showMember(ctx, s, ref, "") })),
			looks(actMemberSearch, func(ctx context.Context, s *Session, _ []string) error {
				return s.Ask(ctx, "op-find", "", Screen{Text: s.T.HTML("op.member.search"), Rows: [][]Button{Row(s.back(actMembers))}})
			}),
		},
		Answers: []Answer{
			answers("op-find", func(ctx context.Context, s *Session, _, text string) error { return findMembers(ctx, s, text) }),
		},
	}
}

// allMembers are all, by name, those who are archived last.
func allMembers(ctx context.Context, s *Session) ([]admin.MemberView, error) {
	list, err := all(ctx, s, admin.MemberList, whole)
	slices.SortFunc(list, func(a, b admin.MemberView) int {
		return cmp.Or(cmp.Compare(gone(a), gone(b)), byName(a.Name, b.Name))
	})
	return list, err
}

func gone(m admin.MemberView) int {
	if m.State == mesh.MemberArchived {
		return 1
	}
	return 0
}

func listMembers(ctx context.Context, s *Session, page string) error {
	list, err := allMembers(ctx, s)
	if err != nil {
		return err
	}
	p := s.paged(page, len(list), actMembers)
	text := p.title(s.T.HTML("op.member.title"))
	if len(list) == 0 {
		text = noted(text, s.T.HTML("op.member.none"))
	}
	rows := p.rows(func(i int) Button { return s.memberButton(list[i]) })
	tools := Row(s.button("search", actMemberSearch))
	if s.mayChange() {
		tools = append(tools, s.button("add", actMemberAdd))
	}
	return s.Show(ctx, Screen{Text: text, Rows: append(rows, tools, Row(s.back(actStatus)))})
}

func (s *Session) memberButton(m admin.MemberView) Button {
	label := s.T.Plain("op.member.line", "mark", s.memberMark(m.State), "name", m.Name, "n", m.Devices)
	return Button{Label: labelled(label), Action: actMember, Args: []string{string(m.ID)}}
}

func (s *Session) memberMark(state mesh.MemberState) string {
	switch state {
	case mesh.MemberActive:
		return s.mark("good")
	case mesh.MemberSuspended:
		return s.mark("warn")
	}
	return s.mark("off")
}

// findMembers lists members whose name or note holds the words, and those devices
// whose name does.
func findMembers(ctx context.Context, s *Session, words string) error {
	list, err := allMembers(ctx, s)
	if err != nil {
		return err
	}
	devices, err := all(ctx, s, admin.DeviceList, func(p admin.Page) admin.DeviceListRequest { return admin.DeviceListRequest{Page: p} })
	if err != nil {
		return err
	}
	has := func(in string) bool { return strings.Contains(strings.ToLower(in), strings.ToLower(words)) }
	var found []Button
	for _, m := range list {
		if has(m.Name) || has(m.Note) || string(m.ID) == words {
			found = append(found, s.memberButton(m))
		}
	}
	slices.SortFunc(devices, func(a, b admin.DeviceView) int {
		return cmp.Or(byName(a.MemberName, b.MemberName), byName(a.Name, b.Name))
	})
	for _, d := range devices {
		if has(d.Name) || has(d.MemberName+"/"+d.Name) && !has(d.MemberName) || string(d.ID) == words {
			found = append(found, s.deviceButton(d, d.MemberName+"/"+d.Name))
		}
	}
	return showFound(ctx, s, words, found)
}

func showFound(ctx context.Context, s *Session, words string, found []Button) error {
	var l lines
	l.add(s.T.HTML("op.member.found", "text", mesh.Quotable(words)))
	var rows [][]Button
	for _, b := range found[:min(len(found), maxFound)] {
		rows = append(rows, Row(b))
	}
	switch more := len(found) - maxFound; {
	case len(found) == 0:
		l.gap()
		l.add(s.T.HTML("op.member.not-found"))
	case more > 0:
		l.gap()
		l.add(s.T.HTML("op.many", "n", more))
	}
	return s.Show(ctx, Screen{Text: l.String(), Rows: append(rows, Row(s.button("search", actMemberSearch), s.back(actMembers)))})
}

// maxShown is how many devices a member's card shows.
const maxShown = 16

func showMember(ctx context.Context, s *Session, ref, note string) error {
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	return s.Show(ctx, Screen{Text: noted(note, s.memberText(m)), Rows: s.memberRows(m)})
}

func (s *Session) memberText(m admin.MemberView) string {
	t := s.T
	var l lines
	l.add(t.HTML("op.member.card", "mark", s.memberMark(m.State), "name", m.Name, "state", s.state(string(m.State))))
	if m.Note != "" {
		l.add(t.HTML("op.member.note", "note", m.Note))
	}
	l.add(t.HTML("op.member.since", "day", t.Day(m.Created)))
	if m.DeviceLimit != nil {
		l.add(t.HTML("op.member.limit", "n", *m.DeviceLimit))
	} else {
		l.add(t.HTML("op.member.limit-default"))
	}
	if m.Cores > 0 {
		l.add(t.HTML("op.member.cores", "n", m.Cores))
	}
	if len(m.DeviceList) > 0 {
		l.gap()
	}
	for _, d := range m.DeviceList[:min(len(m.DeviceList), maxShown)] {
		l.add(t.HTML("op.member.device", "mark", s.deviceMark(d), "name", d.Name, "about", s.deviceAbout(d)))
	}
	if more := len(m.DeviceList) - maxShown; more > 0 {
		l.add(t.HTML("op.member.more", "n", more))
	}
	return l.String()
}

func (s *Session) memberRows(m admin.MemberView) [][]Button {
	id := string(m.ID)
	var rows [][]Button
	for pair := range slices.Chunk(m.DeviceList[:min(len(m.DeviceList), maxShown)], 2) {
		var row []Button
		for _, d := range pair {
			row = append(row, s.deviceButton(d, d.Name))
		}
		rows = append(rows, row)
	}
	if s.mayChange() && m.State != mesh.MemberArchived {
		state := s.button("suspend", actMemberState, id, string(mesh.MemberSuspended))
		if m.State == mesh.MemberSuspended {
			state = s.button("resume", actMemberState, id, string(mesh.MemberActive))
		}
		rows = append(rows,
			Row(s.button("device-add", actDeviceAdd, id)),
			Row(s.button("limit", actMemberLimits, id), s.button("code", actMemberCode, id)),
			Row(state, s.button("archive", actMemberEnd, id)))
	}
	return append(rows, Row(s.back(actMembers), s.button("search", actMemberSearch)))
}

// deviceButton leads to a device's card.
func (s *Session) deviceButton(d admin.DeviceView, name string) Button {
	return Button{Label: labelled(s.deviceMark(d) + " " + name), Action: actDevice, Args: []string{string(d.ID)}}
}

// parseCount reads a number of things.
func parseCount(text string, most int) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, err == nil && n >= 0 && n <= most
}
