package bot

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions about cells.
const (
	actCells     = "zl"
	actCell      = "z"
	actCellState = "zv"
	actCellSet   = "zV"
)

// What a cell's state is in a button's data.
const (
	toCompromised = "c"
	toActive      = "a"
)

func cellTo(short string) mesh.CellState {
	if short == toCompromised {
		return mesh.CellCompromised
	}
	return mesh.CellActive
}

func opCells() Routes {
	to := func(short string) verb {
		return one(func(ctx context.Context, s *Session, ref string) error { return forecastCell(ctx, s, ref, short) })
	}
	return Routes{
		Commands: []Command{
			operates("cells", func(ctx context.Context, s *Session, _ string) error { return listCells(ctx, s, "") }),
			operates("cell", verbs("cell", func(ctx context.Context, s *Session, ref string) error { return showCell(ctx, s, ref, "") }, map[string]verb{
				"compromise": to(toCompromised), "restore": to(toActive),
			})),
		},
		Actions: []Action{
			looks(actCells, by(listCells)),
			looks(actCell, by(func(ctx context.Context, s *Session, ref string) error { return showCell(ctx, s, ref, "") })),
			looks(actCellState, func(ctx context.Context, s *Session, args []string) error {
				return forecastCell(ctx, s, arg(args, 0), arg(args, 1))
			}),
			deed(actCellSet, func(ctx context.Context, s *Session, args []string) error {
				return setCell(ctx, s, arg(args, 0), cellTo(arg(args, 1)))
			}),
		},
	}
}

func listCells(ctx context.Context, s *Session, page string) error {
	list, err := all(ctx, s, admin.CellList, whole)
	if err != nil {
		return err
	}
	order := []mesh.CellState{mesh.CellCompromised, mesh.CellActive, mesh.CellRetired}
	slices.SortFunc(list, func(a, b admin.CellView) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)), byName(a.Name, b.Name))
	})
	p := s.paged(page, len(list), actCells)
	text := p.title(s.T.HTML("op.cell.title"))
	if len(list) == 0 {
		text = noted(text, s.T.HTML("op.cell.none"))
	}
	rows := p.rows(func(i int) Button {
		return Button{Label: s.cellLabel(list[i]), Action: actCell, Args: []string{string(list[i].ID)}}
	})
	return s.Show(ctx, Screen{Text: text, Rows: append(rows, Row(s.back(actStatus), Button{Label: s.T.Plain("button.refresh"), Action: actCells}))})
}

func (s *Session) cellLabel(c admin.CellView) string {
	return labelled(s.T.Plain("op.cell.line", "mark", s.cellMark(c), "name", c.Name, "ready", c.CoresReady, "cores", c.Cores))
}

func (s *Session) cellMark(c admin.CellView) string {
	switch {
	case c.State == mesh.CellRetired:
		return s.mark("off")
	case c.State == mesh.CellCompromised, c.CoresReady == 0 && c.Devices > 0:
		return s.mark("bad")
	case c.CoresReady < c.Cores, c.CoresReady == 0:
		return s.mark("warn")
	}
	return s.mark("good")
}

func showCell(ctx context.Context, s *Session, ref, note string) error {
	c, err := Call(ctx, s, admin.CellGet, admin.Ref{Ref: ref})
	if err != nil {
		return err
	}
	list, err := all(ctx, s, admin.CellList, whole)
	if err != nil {
		return err
	}
	names := map[mesh.CellID]string{}
	for _, other := range list {
		names[other.ID] = other.Name
	}
	return s.Show(ctx, Screen{Text: noted(note, s.cellText(c, names)), Rows: s.cellRows(c)})
}

func (s *Session) cellText(c admin.CellView, names map[mesh.CellID]string) string {
	t := s.T
	var l lines
	l.add(t.HTML("op.cell.card", "mark", s.cellMark(c), "name", c.Name, "state", s.state(string(c.State))))
	if c.State == mesh.CellCompromised {
		l.add(t.HTML("op.cell.since", "moment", t.Moment(c.Compromised)))
	}
	l.gap()
	l.add(t.HTML("op.cell.suffix", "suffix", c.Suffix))
	l.add(t.HTML("op.cell.cores", "ready", c.CoresReady, "n", c.Cores))
	l.add(t.HTML("op.cell.devices", "n", c.Devices))
	var fallback []string
	for _, id := range c.Fallback {
		fallback = append(fallback, cmp.Or(names[id], string(id)))
	}
	switch {
	case len(fallback) > 0:
		l.add(t.HTML("op.cell.fallback", "cells", strings.Join(fallback, ", ")))
	case c.State != mesh.CellRetired && c.Devices > 0:
		l.add(t.HTML("op.cell.no-fallback"))
	}
	if !c.Replaced.IsZero() {
		l.add(t.HTML("op.cell.paths", "moment", t.Moment(c.Replaced)))
	}
	return l.String()
}

func (s *Session) cellRows(c admin.CellView) [][]Button {
	id := string(c.ID)
	var rows [][]Button
	if s.mayChange() {
		switch c.State {
		case mesh.CellActive:
			rows = append(rows, Row(s.button("compromise", actCellState, id, toCompromised)))
		case mesh.CellCompromised:
			rows = append(rows, Row(s.button("restore", actCellState, id, toActive)))
		case mesh.CellRetired:
		}
		rows = append(rows, Row(s.button("broadcast", actBroadcastTo, id)))
	}
	return append(rows, Row(s.back(actCells), Button{Label: s.T.Plain("button.refresh"), Action: actCell, Args: []string{id}}))
}

// forecastCell says what would happen, and asks.
func forecastCell(ctx context.Context, s *Session, ref, short string) error {
	to := cellTo(short)
	f, err := Call(ctx, s, admin.CellForecastOf, admin.CellForecastRequest{Ref: ref, State: to})
	if err != nil {
		return err
	}
	id := string(f.Cell)
	if f.State == to {
		return showCell(ctx, s, id, s.T.HTML("op.cell.so-already"))
	}
	key := "compromise"
	if to == mesh.CellActive {
		key = "restore"
	}
	return s.sure(ctx, s.forecastText(key, f, to), s.back(actCell, id), s.button(key, actCellSet, id, short))
}

func (s *Session) forecastText(key string, f admin.CellForecast, to mesh.CellState) string {
	t := s.T
	var l lines
	l.add(t.HTML("op.cell."+key, "name", f.Name))
	l.gap()
	if f.Devices == 0 {
		l.add(t.HTML("op.cell.forecast.serves-none"))
	} else {
		l.add(t.HTML("op.cell.forecast.serves", "n", f.Devices, "members", t.Plain("op.cell.forecast.members", "n", f.Members)))
	}
	for _, h := range f.Hosts {
		if h.CoresReady == 0 {
			l.add(t.HTML("op.cell.forecast.host-not-ready", "cell", h.Name, "n", h.Devices))
		} else {
			l.add(t.HTML("op.cell.forecast.host", "cell", h.Name, "n", h.Devices, "ready", t.Plain("op.cell.forecast.ready", "n", h.CoresReady)))
		}
	}
	for _, more := range []struct {
		key string
		n   int
	}{{"stranded", f.Stranded}, {"returning", f.Returning}, {"dismissed", f.Dismissed}} {
		if more.n > 0 {
			l.add(t.HTML("op.cell.forecast."+more.key, "n", more.n))
		}
	}
	l.gap()
	l.add(t.HTML("op.cell.forecast." + string(to)))
	return l.String()
}

func setCell(ctx context.Context, s *Session, id string, to mesh.CellState) error {
	done := "compromised"
	if to == mesh.CellActive {
		done = "restored"
	}
	_, err := Call(ctx, s, admin.CellSet, admin.CellSetRequest{Ref: id, State: &to})
	return s.after(err, done, func(note string) error { return showCell(ctx, s, id, note) })
}
