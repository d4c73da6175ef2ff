package bot

import (
	"context"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions that add a device and move one.
const (
	actDeviceAdd    = "da"
	actDeviceIn     = "dc"
	actDeviceMove   = "dm"
	actDeviceMoveTo = "dM"
	actDevicePut    = "dp"
)

func opDevicePlaces() Routes {
	return Routes{
		Actions: []Action{
			looks(actDeviceAdd, by(askDevice)),
			looks(actDeviceMove, func(ctx context.Context, s *Session, args []string) error {
				return chooseCell(ctx, s, arg(args, 0), arg(args, 1))
			}),
			looks(actDeviceMoveTo, func(ctx context.Context, s *Session, args []string) error {
				return chooseCore(ctx, s, arg(args, 0), arg(args, 1), arg(args, 2))
			}),
			deed(actDeviceIn, by(addDeviceIn)),
			deed(actDevicePut, func(ctx context.Context, s *Session, args []string) error {
				return moveDevice(ctx, s, place(admin.DeviceSetRequest{Ref: arg(args, 0)}, arg(args, 1)))
			}),
		},
		Answers: []Answer{
			answers("op-device", nameDevice),
			answers("op-device-cell", func(ctx context.Context, s *Session, data, text string) error {
				member, name, _ := strings.Cut(data, "\n")
				return createDevice(ctx, s, admin.DeviceAddRequest{Member: member, Name: name, Cell: text})
			}),
		},
	}
}

// place names the cell or the core to which a device goes.
func place(req admin.DeviceSetRequest, id string) admin.DeviceSetRequest {
	if _, err := mesh.ParseCoreID(id); err == nil {
		req.Core = &id
	} else {
		req.Cell = &id
	}
	return req
}

// allCells are those in which devices can be, by name.
func allCells(ctx context.Context, s *Session) ([]admin.CellView, error) {
	list, err := all(ctx, s, admin.CellList, whole)
	list = slices.DeleteFunc(list, func(c admin.CellView) bool { return c.State == mesh.CellRetired })
	slices.SortFunc(list, func(a, b admin.CellView) int { return byName(a.Name, b.Name) })
	return list, err
}

func askDevice(ctx context.Context, s *Session, ref string) error {
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	id := string(m.ID)
	return s.Ask(ctx, "op-device", id, Screen{Text: s.T.HTML("op.device.add", "member", m.Name), Rows: [][]Button{Row(s.back(actMember, id))}})
}

// nameDevice has the name, and wants the cell when there are several.
func nameDevice(ctx context.Context, s *Session, member, name string) error {
	if err := mesh.CheckName(name); err != nil {
		return err
	}
	m, err := Call(ctx, s, admin.MemberGet, admin.Ref{Ref: member})
	if err != nil {
		return err
	}
	cells, err := allCells(ctx, s)
	switch {
	case err != nil:
		return err
	case len(cells) == 0:
		return s.Show(ctx, Screen{Text: s.T.HTML("op.device.no-cell"), Rows: [][]Button{Row(s.back(actMember, member))}})
	case len(cells) == 1:
		return createDevice(ctx, s, admin.DeviceAddRequest{Member: member, Name: name, Cell: string(cells[0].ID)})
	}
	var rows [][]Button
	for _, c := range cells[:min(len(cells), maxFound)] { // of the others the name can be written
		rows = append(rows, Row(Button{Label: s.cellLabel(c), Action: actDeviceIn, Args: []string{string(c.ID)}}))
	}
	return s.Ask(ctx, "op-device-cell", member+"\n"+name, Screen{
		Text: s.T.HTML("op.device.add-cell", "device", name, "member", m.Name), Rows: append(rows, Row(s.back(actMember, member))),
	})
}

// addDeviceIn adds the device that was named before.
func addDeviceIn(ctx context.Context, s *Session, cell string) error {
	q := s.Self.Expect
	if q == nil || q.Asked != "op-device-cell" {
		return s.Show(ctx, Screen{Text: s.T.HTML("op.gone"), Rows: [][]Button{Row(s.back(actMembers))}})
	}
	member, name, _ := strings.Cut(q.Data, "\n")
	if err := createDevice(ctx, s, admin.DeviceAddRequest{Member: member, Name: name, Cell: cell}); err != nil {
		return err
	}
	return s.forget(ctx)
}

func createDevice(ctx context.Context, s *Session, req admin.DeviceAddRequest) error {
	d, err := Call(ctx, s, admin.DeviceAdd, req)
	if Done(err) {
		return showMember(ctx, s, req.Member, s.T.HTML("op.done.already"))
	}
	return s.after(err, "added", func(note string) error { return deviceCard(ctx, s, string(d.ID), note) })
}

func moveDevice(ctx context.Context, s *Session, req admin.DeviceSetRequest) error {
	_, err := Call(ctx, s, admin.DeviceSet, req)
	return s.after(err, "moved", func(note string) error { return deviceCard(ctx, s, req.Ref, note) })
}

// chooseCell asks where a device shall go.
func chooseCell(ctx context.Context, s *Session, device, page string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: device})
	if err != nil {
		return err
	}
	cells, err := allCells(ctx, s)
	if err != nil {
		return err
	}
	p := s.paged(page, len(cells), actDeviceMove, device)
	rows := p.rows(func(i int) Button {
		return Button{Label: s.cellLabel(cells[i]), Action: actDeviceMoveTo, Args: []string{device, string(cells[i].ID)}}
	})
	return s.Show(ctx, Screen{Text: s.T.HTML("op.device.move", "name", d.Name), Rows: append(rows, Row(s.back(actDevice, device)))})
}

// chooseCore asks through which core of a cell a device shall go first.
func chooseCore(ctx context.Context, s *Session, device, cell, page string) error {
	d, err := Call(ctx, s, admin.DeviceGet, admin.Ref{Ref: device})
	if err != nil {
		return err
	}
	c, err := Call(ctx, s, admin.CellGet, admin.Ref{Ref: cell})
	if err != nil {
		return err
	}
	cores, err := allCores(ctx, s)
	if err != nil {
		return err
	}
	cores = slices.DeleteFunc(cores, func(v admin.CoreView) bool { return v.Cell != c.ID || v.Revoked })
	p := s.paged(page, len(cores), actDeviceMoveTo, device, cell)
	rows := append([][]Button{Row(s.button("any-core", actDevicePut, device, cell))}, p.rows(func(i int) Button {
		return Button{Label: s.coreLabel(cores[i]), Action: actDevicePut, Args: []string{device, string(cores[i].ID)}}
	})...)
	return s.Show(ctx, Screen{Text: s.T.HTML("op.device.move-core", "name", d.Name, "cell", c.Name), Rows: append(rows, Row(s.back(actDeviceMove, device)))})
}
