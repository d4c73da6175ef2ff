package adminsvc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// reach is how connections to a cell go through each connected entry that tried
// of late.
func (s *Service) reach(ctx context.Context, cell mesh.CellID) ([]admin.CellReach, error) {
	all, _, err := s.Store.Reach.List(ctx)
	if err != nil {
		return nil, err
	}
	entries, _, err := s.Store.Entries.List(ctx)
	if err != nil {
		return nil, err
	}
	known, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var out []admin.CellReach
	for id, e := range entries {
		r, tried := all[id].Cells[cell]
		if n := known.entry(e).Status; tried && !e.Revoked && n != nil && n.Connected {
			out = append(out, admin.CellReach{Entry: id, Name: e.Name, Reach: r})
		}
	}
	slices.SortFunc(out, func(a, b admin.CellReach) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Entry, b.Entry))
	})
	return out, nil
}

// watchWarnings tell of cells that clients do not get into.
func watchWarnings(u usage) []string {
	var out []string
	for id, w := range u.watch {
		if c, ok := u.cells[id]; ok {
			out = append(out, fmt.Sprintf("clients do not get into cell %s since %s: %s", c.Name, w.Since.UTC().Format(time.RFC3339), w.Cause()))
		}
	}
	slices.Sort(out)
	return out
}
