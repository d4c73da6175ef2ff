package nodes

import (
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// usageDays is how many days before are looked at, and usageKnown how many of
	// them must be known.
	usageDays, usageKnown = 7, 5
	// usageKeep is how long samples are kept.
	usageKeep = (usageDays*24 + 2) * time.Hour
	// usageWindow is how long no traffic must be seen.
	usageWindow = 30 * time.Minute
	// usageFloor is the least rate that counts as steady usage, in bytes a second:
	// some 10 MB an hour.
	usageFloor = 3000
	// Less than a twentieth of the least that is usual is no traffic; a quarter of
	// it is traffic again.
	usageGone, usageBack = 20, 4
)

// sample notes what a cell had moved at the beginning of an hour, and drops what is
// too old. It says whether anything changed.
func sample(u *mesh.CellUsage, bytes int64, now time.Time) bool {
	h := mesh.HourOf(now)
	if _, ok := u.Hours[h]; ok {
		return false
	}
	if u.Hours == nil {
		u.Hours = map[mesh.Hour]mesh.UsageSample{}
	}
	u.Hours[h] = mesh.UsageSample{Bytes: bytes, At: now.UTC()}
	oldest := mesh.HourOf(now.Add(-usageKeep))
	for h := range u.Hours {
		if h < oldest {
			delete(u.Hours, h)
		}
	}
	return true
}

// rateIn is what a cell moved a second in an hour; false: nobody knows.
func rateIn(u mesh.CellUsage, h mesh.Hour) (float64, bool) {
	begin, ok := u.Hours[h]
	end, also := u.Hours[h.Next()]
	took := end.At.Sub(begin.At)
	if !ok || !also || took < 45*time.Minute || took > 75*time.Minute || end.Bytes < begin.Bytes {
		return 0, false
	}
	return float64(end.Bytes-begin.Bytes) / took.Seconds(), true
}

// usual is the least that a cell moved a second in this hour of the days before,
// where its usage is steady: never below a floor, and never below a quarter of what
// it mostly was.
func usual(u mesh.CellUsage, h mesh.Hour) (float64, bool) {
	var rates []float64
	for day := 1; day <= usageDays; day++ {
		if r, ok := rateIn(u, mesh.HourOf(h.Start().AddDate(0, 0, -day))); ok {
			rates = append(rates, r)
		}
	}
	if len(rates) < usageKnown {
		return 0, false
	}
	slices.Sort(rates)
	least, middle := rates[0], rates[len(rates)/2]
	return least, least >= usageFloor && least*4 >= middle
}

// trail is what a cell had moved at moments of the last half hour, oldest first. It
// is kept in memory: the next leader sees as much within half an hour.
type trail []mesh.UsageSample

// add notes a moment, and keeps one that is older than the window.
func (t trail) add(bytes int64, now time.Time) trail {
	if n := len(t); n > 0 && bytes < t[n-1].Bytes {
		t = nil // a core is gone, with what it had moved
	}
	t = append(t, mesh.UsageSample{Bytes: bytes, At: now})
	for len(t) > 1 && !t[1].At.After(now.Add(-usageWindow)) {
		t = t[1:]
	}
	return t
}

// verdict says with evidence that there is no traffic against the usual; "": there
// is, or there is nothing to go by. was says that it was so before.
func (t trail) verdict(u mesh.CellUsage, was string) string {
	if len(t) == 0 {
		return was
	}
	first, last := t[0], t[len(t)-1]
	took := last.At.Sub(first.At)
	if took < usageWindow {
		return was
	}
	moved := last.Bytes - first.Bytes
	least, steady := usual(u, mesh.HourOf(last.At))
	if before, ok := usual(u, mesh.HourOf(first.At)); ok && steady {
		least = min(least, before)
	} else {
		steady = false
	}
	expected := least * took.Seconds()
	switch {
	case was != "" && steady && float64(moved) < expected/usageBack:
		return was
	case was != "" && !steady && float64(moved) < usageFloor*took.Seconds():
		return was
	case was == "" && steady && float64(moved) < expected/usageGone:
		return fmt.Sprintf("its cores moved %d bytes in %v, and at this time of the %d days before never less than %.0f in that time",
			moved, took.Round(time.Minute), usageDays, expected)
	}
	return ""
}
