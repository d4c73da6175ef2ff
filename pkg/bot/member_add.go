package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// addDevice makes another device, or asks for what is needed for it.
func addDevice(ctx context.Context, s *Session, name string) error {
	own, err := ownOf(ctx, s)
	if err != nil {
		return err
	}
	back := [][]Button{Row(button(s, "back", "own"), button(s, "ask", "ask"))}
	switch {
	case !room(own):
		return s.Show(ctx, Screen{Text: s.T.HTML("device.add.limit", "n", own.Limit), Rows: back})
	case len(own.Cells) == 0:
		return s.Show(ctx, Screen{Text: s.T.HTML("device.add.nowhere"), Rows: back})
	case name != "":
		return makeDevice(ctx, s, name, "")
	case len(own.Cells) == 1:
		return askName(ctx, s, "ask", "")
	}
	var rows [][]Button
	for _, c := range own.Cells[:min(len(own.Cells), maxListed)] {
		rows = append(rows, Row(Button{Label: c.Ref, Action: "addin", Args: []string{short(c.Ref)}}))
	}
	return s.Show(ctx, Screen{Text: s.T.HTML("device.add.cell"), Rows: append(rows, back[0])})
}

// short names a name in a button: names may be too long for one.
func short(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:6])
}

// addInCell goes on with the cell that was chosen.
func addInCell(ctx context.Context, s *Session, args []string) error {
	own, err := ownOf(ctx, s)
	if err != nil {
		return err
	}
	for _, c := range own.Cells {
		if len(args) == 1 && short(c.Ref) == args[0] {
			return askName(ctx, s, "ask", c.Ref)
		}
	}
	return addDevice(ctx, s, "")
}

// askName asks for the name of a device in a cell; why is which of the texts does.
func askName(ctx context.Context, s *Session, why, cell string) error {
	return s.Ask(ctx, "add", cell, Screen{Text: s.T.HTML("device.add." + why), Reply: true})
}

func makeDevice(ctx context.Context, s *Session, name, cell string) error {
	d, err := Call(ctx, s, admin.BotDeviceAdd, admin.BotDeviceAddRequest{Name: name, Cell: cell})
	switch {
	case Done(err):
		return showOwn(ctx, s)
	case errors.Is(err, mesh.ErrInvalid):
		return askName(ctx, s, "bad", cell)
	case errors.Is(err, mesh.ErrExists):
		return askName(ctx, s, "taken", cell)
	case err != nil:
		return err
	}
	screen := deviceScreen(s, d)
	screen.Text = s.T.HTML("device.add.done", "name", d.Name) + "\n\n" + screen.Text
	return s.Show(ctx, screen)
}
