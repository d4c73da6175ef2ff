package bot

import (
	"context"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/qr"
)

// Actions that show a device.
const (
	actDevice       = "d"
	actDeviceRelink = "dK"
	actDeviceRotate = "dr"
	actDeviceEnd    = "dv"
)

// qrScale is how many pixels a module of a QR code has.
const qrScale = 8

func opDevices() Routes {
	return Routes{
		Actions: []Action{
			looks(actDevice, by(func(ctx context.Context, s *Session, ref string) error { return deviceCard(ctx, s, ref, "") })),
			looks(actDeviceRelink, by(offerLink)),
			looks(actDeviceRotate, by(offerRotate)),
			looks(actDeviceEnd, by(endDevice)),
		},
	}
}

func deviceCard(ctx context.Context, s *Session, ref, note string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	return s.Show(ctx, Screen{Text: noted(note, s.deviceText(d)), Rows: s.deviceRows(d)})
}

func (s *Session) deviceMark(d admin.DeviceView) string {
	switch {
	case d.Standing == mesh.StandingGone:
		return s.mark("off")
	case d.Standing != mesh.StandingOK:
		return s.mark("bad")
	case len(d.Via) == 0:
		return s.mark("warn")
	}
	return s.mark("good")
}

// deviceAbout is what matters most of a device, in a few words.
func (s *Session) deviceAbout(d admin.DeviceView) string {
	about := s.T.Bytes(d.Counted)
	switch {
	case d.Standing != mesh.StandingOK:
		return s.T.Plain("op.standing." + string(d.Standing))
	case d.Limits.Traffic > 0:
		about = texts.Bar(d.Counted, d.Limits.Traffic) + " " + about
	}
	if !d.Limits.Expires.IsZero() {
		about += " · " + s.T.Left(d.Limits.Expires, s.Now)
	}
	return about
}

// standing is how a device is served, in the words of op.standing.
func standing(d admin.DeviceView) string {
	if d.Standing == mesh.StandingOK && d.Waiting != "" {
		return "waiting"
	}
	return string(d.Standing)
}

func (s *Session) deviceText(d admin.DeviceView) string {
	t := s.T
	var l lines
	l.add(t.HTML("op.device.card", "mark", s.deviceMark(d), "name", d.Name, "member", d.MemberName))
	l.add(t.HTML("op.device.state", "standing", t.Plain("op.standing."+standing(d))))
	l.gap()
	s.devicePlace(&l, d)
	l.gap()
	s.deviceUse(&l, d)
	if d.Linked.IsZero() {
		l.add(t.HTML("op.device.unlinked"))
	} else {
		l.add(t.HTML("op.device.linked", "day", t.Day(d.Linked)))
	}
	if !d.Replaced.IsZero() {
		l.add(t.HTML("op.device.renamed", "moment", t.Moment(d.Replaced)))
	}
	return l.String()
}

func (s *Session) devicePlace(l *lines, d admin.DeviceView) {
	if d.CoreName != "" {
		l.add(s.T.HTML("op.device.core", "cell", d.CellName, "core", d.CoreName))
	} else {
		l.add(s.T.HTML("op.device.cell", "cell", d.CellName))
	}
	if d.HostName != "" {
		l.add(s.T.HTML("op.device.host", "cell", d.HostName))
	}
	if len(d.Via) > 0 {
		l.add(s.T.HTML("op.device.via", "cores", strings.Join(d.Via, ", ")))
	}
	if d.Waiting != "" && d.Standing == mesh.StandingOK {
		l.add(s.T.HTML("op.device.waiting", "reason", d.Waiting))
	}
}

func (s *Session) deviceUse(l *lines, d admin.DeviceView) {
	t := s.T
	if d.Limits.Traffic > 0 {
		l.add(t.HTML("op.device.traffic", "bar", texts.Bar(d.Counted, d.Limits.Traffic), "used", t.Bytes(d.Counted), "limit", t.Bytes(d.Limits.Traffic)))
	} else {
		l.add(t.HTML("op.device.traffic-free", "used", t.Bytes(d.Counted)))
	}
	if !d.Reset.IsZero() {
		l.add(t.HTML("op.device.reset", "day", t.Day(d.Reset)))
	}
	switch end := d.Limits.Expires; {
	case d.Limits.Expired(s.Now):
		l.add(t.HTML("op.device.was-until", "day", t.Day(end)))
	case !end.IsZero():
		l.add(t.HTML("op.device.until", "day", t.Day(end), "left", t.Left(end, s.Now)))
	}
	if n := d.Limits.Connections; n > 0 {
		l.add(t.HTML("op.device.connections", "n", n))
	}
	if d.LastUsed.IsZero() {
		l.add(t.HTML("op.device.never-used"))
	} else {
		l.add(t.HTML("op.device.used", "when", t.Ago(d.LastUsed.Add(time.Hour), s.Now))) // it is of a whole hour
	}
}

func (s *Session) deviceRows(d admin.DeviceView) [][]Button {
	id := string(d.ID)
	var rows [][]Button
	if s.mayChange() && d.State != mesh.DeviceRevoked {
		link := s.button("link", actDeviceLink, id)
		if !d.Linked.IsZero() {
			link.Action = actDeviceRelink
		}
		state := s.button("suspend", actDeviceState, id, string(mesh.DeviceSuspended))
		if d.State == mesh.DeviceSuspended {
			state = s.button("resume", actDeviceState, id, string(mesh.DeviceActive))
		}
		rows = [][]Button{
			Row(link),
			Row(s.button("limits", actLimits, id), s.button("move", actDeviceMove, id)),
			Row(s.button("rotate", actDeviceRotate, id), s.button("reset", actDeviceReset, id)),
			Row(state, s.button("revoke", actDeviceEnd, id)),
		}
	}
	return append(rows, Row(s.back(actMember, string(d.Member))))
}

// offerLink asks before a link ends that a client has.
func offerLink(ctx context.Context, s *Session, ref string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(d.ID)
	do := Button{Label: s.T.Plain("op.device.replace-button"), Action: actDeviceLink, Args: []string{id, "r"}}
	return s.sure(ctx, s.T.HTML("op.device.replace", "name", d.Name), s.back(actDevice, id), do)
}

func offerRotate(ctx context.Context, s *Session, ref string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(d.ID)
	return s.Show(ctx, Screen{Text: s.T.HTML("op.device.rotate", "name", d.Name), Rows: [][]Button{
		Row(s.button("rotate-name", actDeviceRotated, id, "n"), s.button("rotate-secret", actDeviceRotated, id, "s")),
		Row(s.back(actDevice, id)),
	}})
}

func endDevice(ctx context.Context, s *Session, ref string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(d.ID)
	text := s.T.HTML("op.device.revoke", "name", d.Name, "member", d.MemberName)
	return s.sure(ctx, text, s.back(actDevice, id), s.button("revoke", actDeviceEnded, id))
}

// maxWarning is how much of a warning stands below a link: two of them and the rest
// fit into the caption of a picture.
const maxWarning = 200

func shortened(text string) string {
	if r := []rune(text); len(r) > maxWarning {
		return string(r[:maxWarning]) + "…"
	}
	return text
}

// sendLink sends a link, which is shown this once, with a picture of it.
func sendLink(ctx context.Context, s *Session, d admin.DeviceView, link admin.SubscriptionLink) error {
	code, err := qr.New(link.URL)
	if err != nil {
		return err
	}
	png, err := code.PNG(qrScale)
	if err != nil {
		return err
	}
	var l lines
	l.add(s.T.HTML("op.device.link", "name", d.Name, "member", d.MemberName, "url", link.URL))
	for _, w := range link.Warnings[:min(len(link.Warnings), 2)] {
		l.add(s.T.HTML("op.device.warning", "text", shortened(w)))
	}
	_, err = s.Photo(ctx, png, Screen{Text: l.String(), Rows: [][]Button{Row(s.back(actDevice, string(d.ID)))}})
	return err
}
