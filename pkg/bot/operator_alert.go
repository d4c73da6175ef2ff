package bot

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions about alerts.
const (
	actAlerts      = "al"
	actAlert       = "a"
	actAlertAck    = "ak"
	actAlertMute   = "am"
	actAlertUnmute = "au"
)

func opAlerts() Routes {
	card := func(ctx context.Context, s *Session, ref string) error { return showAlert(ctx, s, ref, "") }
	return Routes{
		Commands: []Command{
			operates("alerts", func(ctx context.Context, s *Session, _ string) error { return listAlerts(ctx, s, "") }),
			operates("alert", verbs("alert", card, map[string]verb{
				"ack":    one(ackAlert),
				"unmute": one(unmuteAlert),
				"mute": needs(2, "alert", func(ctx context.Context, s *Session, words []string) error {
					return muteAlert(ctx, s, words[0], words[1])
				}),
			})),
		},
		Actions: []Action{
			looks(actAlerts, by(listAlerts)),
			looks(actAlert, by(card)),
			deed(actAlertAck, by(ackAlert)),
			deed(actAlertMute, func(ctx context.Context, s *Session, args []string) error {
				return muteAlert(ctx, s, arg(args, 0), arg(args, 1))
			}),
			deed(actAlertUnmute, by(unmuteAlert)),
		},
	}
}

// mutes are for how long buttons keep people from being told.
func mutes() []string { return []string{"1h", "8h", "3d"} }

// alertRef is an alert in a button's data, which has no room for its id: the hash of
// its object, and how its rule begins.
func alertRef(id string) string {
	rule, hash, _ := strings.Cut(id, ".")
	return rule[:min(len(rule), 5)] + "." + hash
}

// findAlert reads an alert by its id or by what a button has of it.
func findAlert(ctx context.Context, s *Session, ref string) (admin.AlertView, error) {
	rule, hash, ok := strings.Cut(ref, ".")
	if !ok || len(rule) > 5 {
		return Call(ctx, s, admin.AlertGet, admin.Ref{Ref: ref})
	}
	list, err := all(ctx, s, admin.AlertList, func(p admin.Page) admin.AlertListRequest { return admin.AlertListRequest{Page: p, All: true} })
	if err != nil {
		return admin.AlertView{}, err
	}
	for _, a := range list {
		if strings.HasPrefix(a.ID, rule) && strings.HasSuffix(a.ID, "."+hash) {
			return a, nil
		}
	}
	return Call(ctx, s, admin.AlertGet, admin.Ref{Ref: ref}) // says that there is none
}

func listAlerts(ctx context.Context, s *Session, page string) error {
	list, err := all(ctx, s, admin.AlertList, func(p admin.Page) admin.AlertListRequest { return admin.AlertListRequest{Page: p} })
	if err != nil {
		return err
	}
	p := s.paged(page, len(list), actAlerts)
	text := p.title(s.T.HTML("op.alert.title"))
	if len(list) == 0 {
		text = noted(text, s.T.HTML("op.alert.none"))
	}
	rows := p.rows(func(i int) Button {
		a := list[i]
		label := s.T.Plain("op.alert.line", "mark", severityMark(s.T, a.Severity), "title", alertTitle(s.T, a.Alert), "object", cmp.Or(a.Name, a.Object))
		return Button{Label: label, Action: actAlert, Args: []string{alertRef(a.ID)}}
	})
	return s.Show(ctx, Screen{Text: text, Rows: append(rows, Row(s.back(actStatus), Button{Label: s.T.Plain("button.refresh"), Action: actAlerts}))})
}

func showAlert(ctx context.Context, s *Session, ref, note string) error {
	a, err := findAlert(ctx, s, ref)
	if err != nil {
		return err
	}
	rows := append(s.alertRows(a), Row(s.back(actAlerts), Button{Label: s.T.Plain("button.refresh"), Action: actAlert, Args: []string{alertRef(a.ID)}}))
	return s.Show(ctx, Screen{Text: noted(note, s.alertText(a)), Rows: rows})
}

func (s *Session) alertText(a admin.AlertView) string {
	t := s.T
	var l lines
	object := objectText(a.Object, "")
	mark := severityMark(t, a.Severity)
	if a.State == mesh.AlertResolved {
		mark = s.mark("good")
	}
	l.add(t.HTML("op.alert.card", "mark", mark, "title", alertTitle(t, a.Alert), "state", s.state(string(a.State)), "object", object))
	if a.Name != "" {
		l.add(t.HTML("op.alert.named", "name", a.Name))
	}
	l.gap()
	if a.Cause != "" {
		l.add(t.HTML("op.alert.cause", "cause", a.Cause))
	}
	if a.Advice != "" && a.State != mesh.AlertResolved {
		l.add(t.HTML("op.alert.advice", "advice", a.Advice))
	}
	l.gap()
	if a.State == mesh.AlertResolved {
		l.add(t.HTML("op.alert.over", "moment", t.Moment(a.Changed)))
	} else {
		l.add(t.HTML("op.alert.since", "moment", t.Moment(a.Since), "span", t.Span(s.Now.Sub(a.Since))))
	}
	if a.Times > 1 {
		l.add(t.HTML("op.alert.times", "n", a.Times))
	}
	if by := a.Acknowledged; by != nil {
		l.add(t.HTML("op.alert.taken", "who", by.By, "moment", t.Moment(by.At)))
	}
	if a.Muted.After(s.Now) {
		l.add(t.HTML("op.alert.muted", "moment", t.Moment(a.Muted)))
	}
	return l.String()
}

// alertRows are what can be done about an alert.
func (s *Session) alertRows(a admin.AlertView) [][]Button {
	if !s.mayChange() {
		return nil
	}
	ref := alertRef(a.ID)
	var rows [][]Button
	if a.State == mesh.AlertFiring && a.Acknowledged == nil {
		rows = append(rows, Row(s.button("ack", actAlertAck, ref)))
	}
	if a.Muted.After(s.Now) {
		return append(rows, Row(s.button("unmute", actAlertUnmute, ref)))
	}
	var row []Button
	for _, span := range mutes() {
		b := s.button("mute", actAlertMute, ref, span)
		if d, err := mesh.ParseSpan(span); err == nil {
			b.Label = s.T.Plain("op.button.mute", "span", s.T.Span(d))
		}
		row = append(row, b)
	}
	return append(rows, row[:1], row[1:])
}

func ackAlert(ctx context.Context, s *Session, ref string) error {
	a, err := findAlert(ctx, s, ref)
	if err != nil {
		return err
	}
	_, err = Call(ctx, s, admin.AlertAck, admin.AlertAckRequest{Ref: a.ID})
	return s.after(err, "acked", func(note string) error { return showAlert(ctx, s, a.ID, note) })
}

// muteAlert keeps people from hearing of this rule about this object.
func muteAlert(ctx context.Context, s *Session, ref, span string) error {
	d, err := mesh.ParseSpan(span)
	if err != nil {
		return err
	}
	a, err := findAlert(ctx, s, ref)
	if err != nil {
		return err
	}
	m, err := Call(ctx, s, admin.AlertMute, admin.AlertMuteRequest{Rule: a.Rule, Object: a.Object, Time: mesh.Duration(d)})
	if err != nil && !Done(err) {
		return err
	}
	if Done(err) {
		m.Until = s.Now.Add(d).Truncate(time.Second)
	}
	return showAlert(ctx, s, a.ID, s.T.HTML("op.done.muted", "moment", s.T.Moment(m.Until)))
}

func unmuteAlert(ctx context.Context, s *Session, ref string) error {
	a, err := findAlert(ctx, s, ref)
	if err != nil {
		return err
	}
	_, err = Call(ctx, s, admin.AlertUnmute, admin.AlertUnmuteRequest{Rule: a.Rule, Object: a.Object})
	return s.after(err, "unmuted", func(note string) error { return showAlert(ctx, s, a.ID, note) })
}
