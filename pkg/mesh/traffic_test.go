package mesh

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestHours(t *testing.T) {
	at := time.Date(2026, 12, 31, 23, 59, 59, 0, time.FixedZone("", 3600))
	h := HourOf(at)
	if h != "2026123122" || h.Next() != "2026123123" || h.Next().Next() != "2027010100" {
		t.Errorf("%s, then %s, then %s", h, h.Next(), h.Next().Next())
	}
	if !h.Start().Equal(at.Truncate(time.Hour)) || !Hour("x").Start().IsZero() || Hour("").Next() != "" {
		t.Errorf("begins %v", h.Start())
	}
}

func TestTrafficDoesNotGoAround(t *testing.T) {
	most := Traffic{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	if got := most.Plus(Traffic{1, 1, 1}); got != most {
		t.Errorf("got %+v", got)
	}
	if got := (Traffic{1, 5, 1}).Beyond(Traffic{2, 3, 1}); got != (Traffic{0, 2, 0}) {
		t.Errorf("got %+v", got)
	}
}

// The order in which counts come, and how often, makes no difference.
func TestTotalsAreTheSameInAnyOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		var hours []MeterHour
		want := map[DeviceID]int64{}
		for _, meter := range []string{"a-1", "a-2"} {
			for _, core := range []CoreID{"core-a", "core-b"} {
				count := map[DeviceID]Traffic{}
				for h := range 5 {
					for _, d := range []DeviceID{"x", "y"} {
						count[d] = count[d].Plus(Traffic{Up: r.Int64N(100)})
					}
					some := map[DeviceID]Traffic{"x": count["x"]}
					if r.IntN(2) == 0 || h == 4 {
						some["y"] = count["y"]
					}
					hours = append(hours, MeterHour{Hour: Hour("202611300" + string(rune('0'+h))), Core: core, Meter: meter, Devices: some})
				}
				want["x"] += count["x"].Up
				want["y"] += count["y"].Up
			}
		}
		var first TrafficTotals
		for n := range 3 {
			var got TrafficTotals
			list := slices.Concat(hours, hours[:r.IntN(len(hours))])
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			for _, h := range list {
				got.Add(h, nil)
			}
			if got.Devices["x"].Up != want["x"] || got.Devices["y"].Up != want["y"] {
				t.Fatalf("seed %d: got %+v, want %v", seed, got, want)
			}
			if n == 0 {
				first = got
			}
			if !reflect.DeepEqual(got.Cores, first.Cores) {
				t.Fatalf("seed %d: cores %v and %v", seed, got.Cores, first.Cores)
			}
			if got.Add(list[0], nil) {
				t.Fatalf("seed %d: counted again", seed)
			}
		}
	}
}

func TestTrafficOfGuestsCountsSinceTheirCellWasLost(t *testing.T) {
	since := time.Date(2026, 11, 30, 10, 20, 0, 0, time.UTC)
	guestOf := func(d DeviceID, c CoreID) (CellID, time.Time, bool) { return "b", since, d == "x" && c == "core-b" }
	var got TrafficTotals
	add := func(hour Hour, core CoreID, up int64) {
		got.Add(MeterHour{Hour: hour, Core: core, Meter: "m", Devices: map[DeviceID]Traffic{"x": {Up: up}, "y": {Up: up}}}, guestOf)
	}
	add("2026113008", "core-b", 100) // of before
	add("2026113010", "core-a", 50)  // at home
	add("2026113010", "core-b", 107)
	add("2026113010", "core-b", 107) // again
	add("2026113011", "core-b", 110)
	if g := got.Devices["x"].Guest["b"]; g.Up != 10 || !g.Since.Equal(since) || got.Devices["x"].Up != 160 {
		t.Errorf("got %+v", got.Devices["x"])
	}
	if len(got.Devices["y"].Guest) != 0 {
		t.Errorf("got %+v of one who is no guest", got.Devices["y"])
	}
	since = since.Add(24 * time.Hour)
	add("2026120110", "core-b", 113)
	if g := got.Devices["x"].Guest["b"]; g.Up != 3 {
		t.Errorf("after another loss: %+v", g)
	}
}
