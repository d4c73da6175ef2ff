package bot

import (
	"context"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions that change members.
const (
	actMemberState   = "ms"
	actMemberLimited = "mn"
	actMemberCode    = "mc"
)

// maxDevices is the most that a member's device limit may be here.
const maxDevices = 1000

// byDefault stands for a limit that the configuration decides.
const byDefault = "default"

func opMemberChanges() Routes {
	return Routes{
		Commands: []Command{operates("member", verbs("member", func(ctx context.Context, s *Session, ref string) error { return showMember(ctx, s, ref, "") }, map[string]verb{
			"add": one(addMemberNamed),
			"suspend": one(func(ctx context.Context, s *Session, ref string) error {
				return setMemberState(ctx, s, ref, mesh.MemberSuspended)
			}),
			"resume": one(func(ctx context.Context, s *Session, ref string) error {
				return setMemberState(ctx, s, ref, mesh.MemberActive)
			}),
			"archive": one(endMember),
			"code":    one(codeForMember),
			"limit": needs(2, "member", func(ctx context.Context, s *Session, words []string) error {
				return limitMember(ctx, s, words[0], words[1])
			}),
		}))},
		Actions: []Action{
			looks(actMemberAdd, func(ctx context.Context, s *Session, _ []string) error { return askMember(ctx, s) }),
			looks(actMemberEnd, by(endMember)),
			looks(actMemberLimits, by(showMemberLimits)),
			looks(actMemberLimit, by(askMemberLimit)),
			deed(actMemberState, func(ctx context.Context, s *Session, args []string) error {
				return setMemberState(ctx, s, arg(args, 0), mesh.MemberState(arg(args, 1)))
			}),
			deed(actMemberLimited, func(ctx context.Context, s *Session, args []string) error {
				return limitMember(ctx, s, arg(args, 0), arg(args, 1))
			}),
			deed(actMemberCode, by(codeForMember)),
		},
		Answers: []Answer{
			answers("op-member", func(ctx context.Context, s *Session, _, text string) error { return addMemberNamed(ctx, s, text) }),
			answers("op-member-limit", func(ctx context.Context, s *Session, id, text string) error {
				return answerMemberLimit(ctx, s, id, text)
			}),
		},
	}
}

func askMember(ctx context.Context, s *Session) error {
	return s.Ask(ctx, "op-member", "", Screen{Text: s.T.HTML("op.member.add"), Rows: [][]Button{Row(s.back(actMembers))}})
}

func addMemberNamed(ctx context.Context, s *Session, name string) error {
	m, err := Call(ctx, s, admin.MemberAdd, admin.MemberAddRequest{Name: name})
	ref := string(m.ID)
	if Done(err) {
		ref = name
	}
	return s.after(err, "added", func(note string) error { return showMember(ctx, s, ref, note) })
}

// setMemberState is for active and suspended at once; to archive needs a second tap.
func setMemberState(ctx context.Context, s *Session, ref string, state mesh.MemberState) error {
	done := map[mesh.MemberState]string{mesh.MemberActive: "resumed", mesh.MemberSuspended: "suspended", mesh.MemberArchived: "archived"}[state]
	_, err := Call(ctx, s, admin.MemberSet, admin.MemberSetRequest{Ref: ref, State: &state})
	return s.after(err, done, func(note string) error { return showMember(ctx, s, ref, note) })
}

// endMember says what it means to archive a member, and asks.
func endMember(ctx context.Context, s *Session, ref string) error {
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(m.ID)
	text := s.T.HTML("op.member.archive", "name", m.Name, "devices", s.T.Plain("op.member.archive-devices", "n", m.Devices))
	return s.sure(ctx, text, s.back(actMember, id), s.button("archive", actMemberState, id, string(mesh.MemberArchived)))
}

func showMemberLimits(ctx context.Context, s *Session, ref string) error {
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(m.ID)
	var numbers []Button
	for _, n := range []string{"0", "1", "2", "3", "5", "10"} {
		numbers = append(numbers, Button{Label: n, Action: actMemberLimited, Args: []string{id, n}})
	}
	return s.Show(ctx, Screen{Text: s.T.HTML("op.member.limits", "name", m.Name), Rows: [][]Button{
		numbers,
		Row(s.button("default", actMemberLimited, id, byDefault), s.button("other", actMemberLimit, id)),
		Row(s.back(actMember, id)),
	}})
}

func askMemberLimit(ctx context.Context, s *Session, ref string) error {
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(m.ID)
	return s.Ask(ctx, "op-member-limit", id, Screen{Text: s.T.HTML("op.member.limit-ask", "name", m.Name), Rows: [][]Button{Row(s.back(actMemberLimits, id))}})
}

func answerMemberLimit(ctx context.Context, s *Session, id, text string) error {
	if _, ok := parseCount(text, maxDevices); !ok && text != byDefault {
		return s.Ask(ctx, "op-member-limit", id, Screen{Text: s.T.HTML("op.member.limit-bad"), Rows: [][]Button{Row(s.back(actMemberLimits, id))}})
	}
	return limitMember(ctx, s, id, text)
}

// limitMember bounds how many devices a member may have: a number, or by default.
func limitMember(ctx context.Context, s *Session, ref, text string) error {
	req := admin.MemberSetRequest{Ref: ref}
	n, ok := parseCount(text, maxDevices)
	switch {
	case ok:
		req.DeviceLimit = &n
	case text == byDefault:
		req.DeviceLimit = new(-1)
	default:
		_, err := s.Say(ctx, Screen{Text: s.T.HTML("op.member.limit-bad")})
		return err
	}
	_, err := Call(ctx, s, admin.MemberSet, req)
	return s.after(err, "changed", func(note string) error { return showMember(ctx, s, ref, note) })
}

// codeForMember makes a code with which the member links a Telegram account.
func codeForMember(ctx context.Context, s *Session, ref string) error {
	if err := s.SecretsAllowed(); err != nil {
		return err
	}
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(m.ID)
	code, err := Call(ctx, s, admin.BotCodeCreate, admin.BotCodeRequest{Member: id})
	if Done(err) { // its message was lost: the next tap makes another
		return showMember(ctx, s, id, s.T.HTML("op.done.already"))
	}
	if err != nil {
		return err
	}
	text := s.T.HTML("op.member.code", "name", m.Name, "moment", s.T.Moment(code.Expires), "code", code.Code)
	if code.URL != "" {
		text += "\n" + s.T.HTML("op.member.code-url", "url", code.URL)
	}
	_, err = s.Secret(ctx, Screen{Text: text, Rows: [][]Button{Row(s.back(actMember, id))}})
	return err
}
