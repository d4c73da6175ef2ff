package bot

import (
	"context"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// memberRoutes are what members see and do: their own things alone.
func memberRoutes() Routes {
	member := mesh.BotMember
	return Routes{
		Commands: []Command{
			{"devices", member, devices},
			{"add", member, addDevice},
			{"qr", member, onDevice(showLink)},
			{"lost", member, onDevice(showRotate)},
			{"mycores", member, func(ctx context.Context, s *Session, _ string) error { return showCores(ctx, s) }},
			{"ask", member, askOperators},
		},
		Actions: []Action{
			{Name: "own", Need: member, Do: func(ctx context.Context, s *Session, _ []string) error { return showOwn(ctx, s) }},
			{Name: "dev", Need: member, Do: pressedDevice(showDevice)},
			{Name: "add", Need: member, Do: func(ctx context.Context, s *Session, _ []string) error { return addDevice(ctx, s, "") }},
			{Name: "addin", Need: member, Do: addInCell},
			{Name: "qr", Need: member, Do: pressedDevice(showLink)},
			{Name: "qrnew", Need: member, Changes: true, Do: pressedDevice(makeLink)},
			{Name: "lost", Need: member, Do: pressedDevice(showRotate)},
			{Name: "rotate", Need: member, Changes: true, Do: pressedDevice(rotate)},
			{Name: "mycores", Need: member, Do: func(ctx context.Context, s *Session, _ []string) error { return showCores(ctx, s) }},
			{Name: "ask", Need: member, Do: func(ctx context.Context, s *Session, _ []string) error { return askOperators(ctx, s, "") }},
		},
		Answers: []Answer{
			{"add", member, func(ctx context.Context, s *Session, cell, name string) error { return makeDevice(ctx, s, name, cell) }},
			{"ask", member, func(ctx context.Context, s *Session, _, text string) error { return sendQuestion(ctx, s, text) }},
		},
		Reply: reply,
	}
}

// ownOf is all that is the member's, by name.
func ownOf(ctx context.Context, s *Session) (admin.BotOwnView, error) {
	own, err := Call(ctx, s, admin.BotOwn, admin.None{})
	slices.SortFunc(own.Devices, func(a, b admin.DeviceView) int { return byName(a.Name, b.Name) })
	slices.SortFunc(own.Cores, func(a, b admin.CoreView) int { return byName(a.Name, b.Name) })
	return own, err
}

// devices is the command; it may name one.
func devices(ctx context.Context, s *Session, name string) error {
	if name == "" {
		return showOwn(ctx, s)
	}
	return onDevice(showDevice)(ctx, s, name)
}

// maxListed is how many devices have a button of their own.
const maxListed = 40

// showOwn shows all that is the member's.
func showOwn(ctx context.Context, s *Session) error {
	own, err := ownOf(ctx, s)
	if err != nil {
		return err
	}
	var rows [][]Button
	for i, d := range own.Devices[:min(len(own.Devices), maxListed)] {
		b := Button{Label: deviceMark(d) + " " + d.Name, Action: "dev", Args: []string{string(d.ID)}}
		if i%2 == 0 {
			rows = append(rows, Row(b))
		} else {
			rows[len(rows)-1] = append(rows[len(rows)-1], b)
		}
	}
	if room(own) {
		rows = append(rows, Row(button(s, "add", "add")))
	}
	rows = append(rows, Row(button(s, "cores", "mycores"), button(s, "ask", "ask")),
		Row(button(s, "refresh", "own"), button(s, "language", "lang")))
	if s.Operator() {
		rows = append(rows, homeRow(s))
	}
	return s.Show(ctx, Screen{Text: ownText(s.T, own, s.Now), Rows: rows})
}

// room says whether the member may add another device.
func room(own admin.BotOwnView) bool {
	has := 0
	for _, d := range own.Devices {
		if d.State != mesh.DeviceRevoked {
			has++
		}
	}
	return has < own.Limit && own.Member.State == mesh.MemberActive
}

// pressedDevice finds the member's device that a button names.
func pressedDevice(do func(context.Context, *Session, admin.DeviceView) error) func(context.Context, *Session, []string) error {
	return func(ctx context.Context, s *Session, args []string) error {
		return onDevice(do)(ctx, s, arg(args, 0))
	}
}

// onDevice finds the member's device that a command names, by id or by name. A
// member with one device need not name it.
func onDevice(do func(context.Context, *Session, admin.DeviceView) error) func(context.Context, *Session, string) error {
	return func(ctx context.Context, s *Session, ref string) error {
		own, err := ownOf(ctx, s)
		if err != nil {
			return err
		}
		for _, d := range own.Devices {
			if string(d.ID) == ref || strings.EqualFold(d.Name, ref) || ref == "" && len(own.Devices) == 1 {
				return do(ctx, s, d)
			}
		}
		if ref == "" {
			return showOwn(ctx, s)
		}
		return s.Show(ctx, Screen{Text: s.T.HTML("device.gone"), Rows: [][]Button{Row(button(s, "devices", "own"))}})
	}
}

// showDevice shows a device's card.
func showDevice(ctx context.Context, s *Session, d admin.DeviceView) error {
	return s.Show(ctx, deviceScreen(s, d))
}

func deviceScreen(s *Session, d admin.DeviceView) Screen {
	id := string(d.ID)
	screen := Screen{Text: deviceText(s.T, d, s.Now)}
	if d.Standing != mesh.StandingGone {
		screen.Rows = append(screen.Rows,
			Row(Button{Label: s.T.Plain("device.button.link"), Action: "qr", Args: []string{id}},
				Button{Label: s.T.Plain("device.button.rotate"), Action: "lost", Args: []string{id}}))
	}
	screen.Rows = append(screen.Rows, Row(button(s, "refresh", "dev", id), button(s, "back", "own")))
	return screen
}

func showCores(ctx context.Context, s *Session) error {
	own, err := ownOf(ctx, s)
	if err != nil {
		return err
	}
	return s.Show(ctx, Screen{
		Text: coresText(s.T, own.Cores, s.Now),
		Rows: [][]Button{Row(button(s, "refresh", "mycores"), button(s, "devices", "own"))},
	})
}
