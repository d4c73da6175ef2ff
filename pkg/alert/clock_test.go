package alert

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A server whose clock was a year ahead had the office before one whose clock is right.
func TestTimesOfAClockThatWasAheadHoldNothingUp(t *testing.T) {
	const ahead = 365 * day
	c := Condition{Rule: ServerLost, Object: "server/a", Cause: "away"}
	fires := func(t *testing.T) *sim {
		s := newSim(t, mesh.AlertSettings{})
		s.now = s.now.Add(ahead)
		s.step(0, c)
		s.want("it fires", s.step(20*time.Second, c), mesh.NoticeAlert)
		return s
	}
	t.Run("what waits begins", func(t *testing.T) {
		s := newSim(t, mesh.AlertSettings{})
		s.now = s.now.Add(ahead)
		s.step(0, c)
		s.now = start
		s.want("the clock is right", s.step(time.Second, c))
		s.want("it lasted", s.step(20*time.Second, c), mesh.NoticeAlert)
	})
	t.Run("what begins with an event of then begins", func(t *testing.T) {
		s := newSim(t, mesh.AlertSettings{})
		of := c
		of.Since = start.Add(ahead)
		s.step(0, of)
		s.want("it lasted", s.step(20*time.Second, of), mesh.NoticeAlert)
	})
	t.Run("what fires is not told again, and people are reminded", func(t *testing.T) {
		s := fires(t)
		s.now = start
		s.want("the clock is right", s.step(time.Second, c))
		s.want("a day later", s.step(day, c), mesh.NoticeAlert)
	})
	t.Run("what is gone clears", func(t *testing.T) {
		s := fires(t)
		s.step(time.Second) // it begins to clear
		s.now = start
		s.want("the clock is right", s.step(time.Second))
		s.want("gone for long enough", s.step(time.Minute), mesh.NoticeResolved)
	})
	t.Run("clocks that differ a little change nothing", func(t *testing.T) {
		s := fires(t)
		s.now = s.now.Add(-clocksDiffer)
		if got := s.book.Step(s.alerts, Input{Conditions: []Condition{c}}, s.now); len(got) != 0 {
			t.Errorf("changed: %+v", got)
		}
	})
}
