package alert

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A step of a bad day: 500 alerts that stand, and 20,000 events of two days.
func BenchmarkStep(b *testing.B) {
	book := NewBook(mesh.AlertSettings{})
	alerts := map[string]mesh.Alert{}
	var in Input
	for i := range 500 {
		in.Conditions = append(in.Conditions, Condition{Rule: CoreLost, Object: fmt.Sprintf("core/%d", i)})
	}
	for _, c := range book.Step(alerts, in, start) {
		alerts[c.Alert.ID] = c.Alert
	}
	var events []mesh.Event
	for i := range 20_000 {
		events = append(events, mesh.Event{Type: mesh.EventTokenGuess, Object: fmt.Sprintf("address/%d", i), Time: start.Add(-Window + time.Duration(i)*8*time.Second)})
	}
	b.ReportAllocs()
	for b.Loop() {
		all := append(in.Conditions[:500:500], book.FromEvents(events, alerts, start)...)
		book.Step(alerts, Input{Conditions: all}, start)
	}
}
