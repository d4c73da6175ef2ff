package nodes

import (
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// day draws what a cell moves in each hour of a day, in MB: little at night.
var day = [24]int64{40, 20, 15, 15, 15, 20, 40, 80, 120, 150, 160, 170, 180, 170, 160, 160, 170, 200, 260, 320, 350, 300, 200, 100}

const mb = 1_000_000

// cellWeek simulates the samples and the five-minute passes of a cell: factor says
// how much of what is drawn it moves at a moment.
func cellWeek(days int, drawn [24]int64, factor func(time.Time) float64, each func(now time.Time, evidence string)) {
	begin := time.Date(2026, 11, 1, 0, 1, 0, 0, time.UTC)
	var u mesh.CellUsage
	var tr trail
	evidence, moved := "", 0.0
	for now := begin; now.Before(begin.AddDate(0, 0, days)); now = now.Add(5 * time.Minute) {
		moved += float64(drawn[now.Hour()]*mb) / 12 * factor(now)
		sample(&u, int64(moved), now)
		tr = tr.add(int64(moved), now)
		evidence = tr.verdict(u, evidence)
		each(now, evidence)
	}
}

func TestACellWithoutItsUsualTraffic(t *testing.T) {
	cut := time.Date(2026, 11, 9, 20, 10, 0, 0, time.UTC)
	back := cut.Add(5 * time.Hour) // at night, when little is moved
	var noticed, cleared time.Time
	cellWeek(11, day, func(now time.Time) float64 {
		switch {
		case now.After(cut) && now.Before(back):
			return 0
		case now.Day()%2 == 0:
			return 0.7 // no day is like another
		}
		return 1.1
	}, func(now time.Time, evidence string) {
		switch {
		case evidence != "" && now.Before(cut), evidence == "" && !noticed.IsZero() && now.Before(back), evidence != "" && !cleared.IsZero():
			t.Fatalf("at %v: %q", now, evidence)
		case evidence != "" && noticed.IsZero():
			noticed = now
			if !strings.HasPrefix(evidence, "its cores moved 0 bytes in 30m0s, and at this time of the 7 days before never less than 121") {
				t.Errorf("evidence: %s", evidence)
			}
		case evidence == "" && !noticed.IsZero() && cleared.IsZero():
			cleared = now
		}
	})
	if late := noticed.Sub(cut); noticed.IsZero() || late > 40*time.Minute {
		t.Errorf("noticed %v after the cut", late)
	}
	if late := cleared.Sub(back); cleared.IsZero() || late > 40*time.Minute {
		t.Errorf("cleared %v after it was mended", late)
	}
}

func TestOnlyASteadyCellIsJudgedByItsTraffic(t *testing.T) {
	dark := func(now time.Time) bool { return now.Day() >= 9 }
	for name, tt := range map[string]struct {
		drawn  [24]int64
		factor func(time.Time) float64
	}{
		"a cell that moves next to nothing": {[24]int64{12: 5}, func(now time.Time) float64 {
			if dark(now) {
				return 0
			}
			return 1
		}},
		"a cell that is used on some days": {day, func(now time.Time) float64 {
			if dark(now) || now.Day()%3 == 0 {
				return 0
			}
			return 1
		}},
		"a cell that is used ever less": {day, func(now time.Time) float64 { return 1 / float64(now.Day()) }},
		"a cell whose days differ much": {day, func(now time.Time) float64 {
			return []float64{0.1, 1, 1, 1, 1, 0.1, 1, 0}[now.Day()%8]
		}},
	} {
		cellWeek(12, tt.drawn, tt.factor, func(now time.Time, evidence string) {
			if evidence != "" {
				t.Fatalf("%s: at %v: %s", name, now, evidence)
			}
		})
	}
}

func TestSamplesThatSayNothing(t *testing.T) {
	at := time.Date(2026, 11, 1, 8, 1, 0, 0, time.UTC)
	h := mesh.HourOf(at)
	for name, u := range map[string]mesh.CellUsage{
		"the hour after is not known": {Hours: map[mesh.Hour]mesh.UsageSample{h: {At: at}}},
		"it was taken late":           {Hours: map[mesh.Hour]mesh.UsageSample{h: {At: at}, h.Next(): {Bytes: 5, At: at.Add(100 * time.Minute)}}},
		"a core went with its sum":    {Hours: map[mesh.Hour]mesh.UsageSample{h: {Bytes: 9, At: at}, h.Next(): {Bytes: 5, At: at.Add(time.Hour)}}},
	} {
		if r, ok := rateIn(u, h); ok {
			t.Errorf("%s: %v", name, r)
		}
	}
	var tr trail
	for i, bytes := range []int64{100, 200, 150} {
		tr = tr.add(bytes, at.Add(time.Duration(i)*time.Hour))
	}
	if len(tr) != 1 || tr.verdict(mesh.CellUsage{}, "as before") != "as before" {
		t.Errorf("after a core went: %v", tr)
	}
	var u mesh.CellUsage
	for i := range 400 {
		sample(&u, int64(i), at.Add(time.Duration(i)*time.Hour))
	}
	if n := len(u.Hours); n > 172 {
		t.Errorf("%d samples are kept", n)
	}
}
