package alert

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A week in which everything goes wrong: 60 cores that come and go, a store that
// is full, guesses all the time, a cell that is cut every hour. People get a
// number of messages that they can read, and hear of every thing that stays wrong.
func TestAWeekOfTrouble(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	r := rand.New(rand.NewPCG(1, 2))
	var events []mesh.Event
	lost := map[string]bool{}
	told := map[string]int{}
	perHour := map[int]int{}
	for minute := range 7 * 24 * 60 {
		for i := range 60 {
			core := fmt.Sprintf("core/%03d", i)
			if r.IntN(100) == 0 {
				lost[core] = !lost[core]
			}
		}
		lost["core/000"] = true
		lost["core/001"] = minute%2 == 0 // as fast as anybody looks
		s.now = start.Add(time.Duration(minute) * time.Minute)
		event := func(typ mesh.EventType, object string) {
			events = append(events, mesh.Event{Type: typ, Object: object, Time: s.now, Severity: mesh.Warning})
		}
		if minute%5 == 0 {
			event(mesh.EventTokenGuess, fmt.Sprintf("address/%d", minute))
		}
		if minute%1440 == 0 {
			event(mesh.EventStoreNearlyFull, "store/etcd")
		}
		switch minute % 60 {
		case 10:
			event(mesh.EventCellUnreachable, "cell/a")
		case 25:
			event(mesh.EventCellReachable, "cell/a")
		}
		for len(events) > 0 && s.now.Sub(events[0].Time) > Window {
			events = events[1:]
		}
		in := Input{Conditions: s.book.FromEvents(events, s.alerts, s.now)}
		for core := range lost {
			if lost[core] {
				in.Conditions = append(in.Conditions, Condition{Rule: CoreLost, Object: core, Cause: "no phone-home"})
			}
		}
		for _, c := range s.once(in) {
			told[c.Alert.Rule]++
			perHour[minute/60]++
		}
	}
	t.Log(told)
	most := 0
	for _, n := range perHour {
		most = max(most, n)
	}
	// Ten messages in ten minutes of a rule at the most, and as many ends.
	if limit := 2 * 6 * (budget + foldOver); most > limit {
		t.Errorf("%d messages in one hour", most)
	}
	if n := told["token-guess"]; n != 1 {
		t.Errorf("%d messages of guesses that never stopped", n)
	}
	if n := told["store-nearly-full"]; n < 6 || n > 8 {
		t.Errorf("%d messages of a full store, want one a day", n)
	}
	if n := told["cell-unreachable"]; n < 2 || n > 80 {
		t.Errorf("%d messages of a cell that is cut each hour", n)
	}
	if a := s.alerts[ID(CoreLost, "core/000")]; a.Times != 1 || a.Told.Before(s.now.Add(-25*time.Hour)) {
		t.Errorf("a core that was lost all the time: %+v", a)
	}
	if a := s.alerts[ID(CoreLost, "core/001")]; a.Times != 1 || a.State != mesh.AlertFiring {
		t.Errorf("a core that comes and goes each minute: %+v", a)
	}
}
