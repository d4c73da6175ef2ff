package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A cell whose cores phone home can be out of reach all the same: somebody filters
// the way to it. Two things show that: entries that cannot reach any core of it,
// and no traffic where there always was, which also tells of what lies between
// clients and entries.

// phoning are the cores of a cell that phone home and are meant to serve.
type phoning struct {
	all      int
	answered int // a dial-back of management
}

// entryView is what one connected entry says of a cell.
type entryView struct {
	name string
	mesh.Reach
	alone bool // it reaches no other cell either
}

// reachVerdict decides by what entries say whether clients get into a cell. Of
// those that have tried of late at least half must fail, for as long as unreachable;
// then the evidence is returned, and otherwise when to look again. was says that it
// was so before: then those that fail count whatever the time.
func reachVerdict(p phoning, views []entryView, was bool, unreachable time.Duration, now time.Time) (evidence string, again time.Time) {
	var failing []entryView
	for _, v := range views {
		switch at := v.Since.Add(unreachable); {
		case !v.Fails:
		case was || !at.After(now):
			failing = append(failing, v)
		default:
			again = sooner(again, at)
		}
	}
	if p.all == 0 || len(failing) == 0 || 2*len(failing) < len(views) {
		return "", again
	}
	slices.SortFunc(failing, func(a, b entryView) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.name, b.name))
	})
	return reachEvidence(p, failing, len(views)), again
}

// maxNamed is how many entries a cause names.
const maxNamed = 5

func reachEvidence(p phoning, failing []entryView, of int) string {
	var named []string
	for _, v := range failing[:min(len(failing), maxNamed)] {
		text := fmt.Sprintf("%s since %s (%s)", v.name, v.Since.UTC().Format(time.RFC3339), v.Fault)
		if v.alone {
			text += ", which reaches no other cell either"
		}
		named = append(named, text)
	}
	if more := len(failing) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d of %d entries that tried reach none of its cores, of which %d phone home and %d answer management: %s",
		len(failing), of, p.all, p.answered, strings.Join(named, "; "))
}

const watchAdvice = "look at the way from entries and clients to the cell's cores: a filter, a provider, a firewall; if its names or addresses are known to an adversary, meshctl admin cell compromise CELL"

// watchEvents are what people should know when what is seen of a cell changes.
func watchEvent(before, after *mesh.CellWatch, why string) (mesh.Event, bool) {
	switch {
	case before == nil && after != nil:
		return mesh.Event{Type: mesh.EventCellUnreachable, Severity: mesh.Critical, Object: mesh.ObjectCell + string(after.Cell),
			Cause: after.Cause(), Advice: watchAdvice}, true
	case before != nil && after == nil:
		return mesh.Event{Type: mesh.EventCellReachable, Severity: mesh.Info, Object: mesh.ObjectCell + string(before.Cell), Cause: why}, true
	}
	return mesh.Event{}, false
}

// nextWatch is what is to be noted of a cell; nil: nothing.
func nextWatch(cell mesh.CellID, before *mesh.CellWatch, entries, traffic string, now time.Time) *mesh.CellWatch {
	if entries == "" && traffic == "" {
		return nil
	}
	w := mesh.CellWatch{Cell: cell, Since: now.UTC(), Entries: entries, Traffic: traffic}
	if before != nil {
		w.Since = before.Since
		// What was seen first is told better than numbers that change all the time.
		if entries != "" && before.Entries != "" {
			w.Entries = before.Entries
		}
		if traffic != "" && before.Traffic != "" {
			w.Traffic = before.Traffic
		}
	}
	return &w
}
