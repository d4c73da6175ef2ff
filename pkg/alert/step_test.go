package alert

import (
	"maps"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// sim plays the rules against a clock of its own.
type sim struct {
	t      *testing.T
	book   Book
	alerts map[string]mesh.Alert
	now    time.Time
	events []mesh.EventType
}

var start = time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC)

func newSim(t *testing.T, s mesh.AlertSettings) *sim {
	return &sim{t: t, book: NewBook(s), alerts: map[string]mesh.Alert{}, now: start}
}

// step lets d pass, and returns what people are told then.
func (s *sim) step(d time.Duration, conditions ...Condition) []Change {
	s.t.Helper()
	s.now = s.now.Add(d)
	return s.take(Input{Conditions: conditions})
}

func (s *sim) take(in Input) []Change {
	s.t.Helper()
	told := s.once(in)
	before := maps.Clone(s.alerts)
	for _, c := range s.book.Step(before, in, s.now) {
		s.t.Errorf("the same step again changes %+v", c)
	}
	return told
}

func (s *sim) once(in Input) []Change {
	s.t.Helper()
	var told []Change
	for _, c := range s.book.Step(s.alerts, in, s.now) {
		if c.Event != "" {
			s.events = append(s.events, c.Event)
		}
		if c.Tell != "" {
			told = append(told, c)
		}
		if c.Forget {
			delete(s.alerts, c.Alert.ID)
		} else {
			s.alerts[c.Alert.ID] = c.Alert
		}
	}
	return told
}

func (s *sim) want(what string, got []Change, kinds ...mesh.NoticeKind) {
	s.t.Helper()
	if len(got) != len(kinds) {
		s.t.Fatalf("%s: %d messages %+v, want %v", what, len(got), got, kinds)
	}
	for i, k := range kinds {
		if got[i].Tell != k {
			s.t.Errorf("%s: told %s, want %s", what, got[i].Tell, k)
		}
	}
}

func (s *sim) state(c Condition) mesh.AlertState { return s.alerts[c.ID()].State }

func TestAnAlertFromItsCauseToItsEnd(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	c := Condition{Rule: ServerLost, Object: "server/a", Cause: "away"}
	s.want("the cause has just come", s.step(0, c))
	if got := s.state(c); got != mesh.AlertPending {
		t.Fatalf("state %q", got)
	}
	s.want("it lasted", s.step(20*time.Second, c), mesh.NoticeAlert)
	s.want("it goes on", s.step(time.Hour, c))
	s.want("a day later people are reminded", s.step(day, c), mesh.NoticeAlert)
	s.want("it is gone", s.step(time.Second))
	if a := s.alerts[c.ID()]; a.State != mesh.AlertFiring || a.Clearing.IsZero() {
		t.Fatalf("it is over at once: %+v", a)
	}
	s.want("gone for long enough", s.step(time.Minute), mesh.NoticeResolved)
	if a := s.alerts[c.ID()]; a.State != mesh.AlertResolved || a.Times != 1 || !a.Clearing.IsZero() {
		t.Fatalf("after its end: %+v", a)
	}
	s.want("a quiet day", s.step(day))
	if len(s.alerts) != 0 {
		t.Errorf("kept: %+v", s.alerts)
	}
	if len(s.events) != 2 || s.events[0] != mesh.EventMgmtLost || s.events[1] != mesh.EventMgmtBack {
		t.Errorf("events %v", s.events)
	}
}

func TestACauseThatIsGoneInTimeIsForgotten(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	c := Condition{Rule: ServerLost, Object: "server/a"}
	s.step(0, c)
	s.want("a hiccup", s.step(10*time.Second))
	if len(s.alerts) != 0 || len(s.events) != 0 {
		t.Errorf("kept %v, events %v", s.alerts, s.events)
	}
}

func TestAnAlertThatComesBackTakesLongerToClearEachTime(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	c := Condition{Rule: CoreLost, Object: "core/a"}
	var last time.Duration
	for n := range 12 {
		s.want("it fires", s.step(time.Second, c), mesh.NoticeAlert)
		began := s.now
		s.step(time.Second)
		for s.state(c) == mesh.AlertFiring {
			s.step(30 * time.Second)
		}
		took := s.now.Sub(began)
		if took < last || took > maxClear+time.Minute {
			t.Fatalf("time %d: it took %v to clear, %v before", n+1, took, last)
		}
		last = took
	}
	if a := s.alerts[c.ID()]; a.Times != 12 || last < maxClear {
		t.Errorf("times %d, the last took %v", a.Times, last)
	}
}

func TestMutesAcknowledgementsAndSettings(t *testing.T) {
	c := Condition{Rule: CoreLost, Object: "core/a", Cause: "x"}
	mute := func(rule, object string) mesh.AlertSettings {
		return mesh.AlertSettings{Mutes: []mesh.AlertMute{{Rule: rule, Object: object, Until: start.Add(time.Hour)}}}
	}
	t.Run("muted alerts are kept, and told when the mute is over", func(t *testing.T) {
		s := newSim(t, mute(CoreLost, "core/a"))
		s.want("muted", s.step(time.Second, c))
		if s.state(c) != mesh.AlertFiring {
			t.Fatal("it does not fire")
		}
		s.want("still", s.step(30*time.Minute, c))
		s.want("the mute is over", s.step(time.Hour, c), mesh.NoticeAlert)
	})
	t.Run("of what was muted from begin to end nobody hears", func(t *testing.T) {
		s := newSim(t, mute("", ""))
		s.step(time.Second, c)
		s.step(time.Second)
		s.want("over", s.step(10*time.Minute))
		s.want("after the mute", s.step(2*time.Hour))
	})
	t.Run("a mute of another object mutes nothing", func(t *testing.T) {
		s := newSim(t, mute(CoreLost, "core/b"))
		s.want("not muted", s.step(time.Second, c), mesh.NoticeAlert)
	})
	t.Run("nobody is reminded of what somebody takes care of", func(t *testing.T) {
		s := newSim(t, mesh.AlertSettings{})
		s.step(time.Second, c)
		a := s.alerts[c.ID()]
		a.Acknowledged = &mesh.Acknowledged{By: "admin:x", At: s.now}
		s.alerts[c.ID()] = a
		s.want("a week", s.step(7*day, c))
		s.step(time.Second)
		s.want("its end is told", s.step(10*time.Minute), mesh.NoticeResolved)
		if s.alerts[c.ID()].Acknowledged != nil {
			t.Error("the next time would be acknowledged too")
		}
	})
	t.Run("a rule that is disabled ends its alerts in silence", func(t *testing.T) {
		s := newSim(t, mesh.AlertSettings{})
		s.step(time.Second, c)
		s.book = NewBook(mesh.AlertSettings{Rules: []mesh.AlertRuleSettings{{Rule: CoreLost, Disabled: true}}})
		s.want("disabled", s.step(time.Second, c))
		if len(s.alerts) != 0 {
			t.Errorf("kept %v", s.alerts)
		}
	})
	t.Run("settings replace what the table says", func(t *testing.T) {
		s := newSim(t, mesh.AlertSettings{Rules: []mesh.AlertRuleSettings{{Rule: CoreLost, Severity: mesh.Info,
			For: new(mesh.Duration(time.Minute)), Clear: new(mesh.Duration(0)), Repeat: new(mesh.Duration(0))}}})
		c.Severity = mesh.Critical
		s.want("not yet", s.step(time.Second, c))
		told := s.step(time.Minute, c)
		s.want("now", told, mesh.NoticeAlert)
		if told[0].Alert.Severity != mesh.Info {
			t.Errorf("severity %s", told[0].Alert.Severity)
		}
		s.want("never again", s.step(30*day, c))
		s.want("over at once", s.step(time.Second), mesh.NoticeResolved)
	})
}

func TestWhatCannotBeLearntChangesNothing(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	c := Condition{Rule: CoreLost, Object: "core/a"}
	s.step(time.Second, c)
	s.now = s.now.Add(time.Hour)
	s.want("unknown", s.take(Input{Unknown: map[string]bool{CoreLost: true}}))
	if a := s.alerts[c.ID()]; a.State != mesh.AlertFiring || !a.Clearing.IsZero() {
		t.Errorf("%+v", a)
	}
}

func TestManyAtOnceAreToldInFewMessages(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	var all []Condition
	for range 200 {
		all = append(all, Condition{Rule: CoreLost, Object: "core/" + string(mesh.NewCoreID())})
	}
	told := s.step(time.Second, all...)
	s.want("200 at once", told, mesh.NoticeAlert, mesh.NoticeAlert, mesh.NoticeAlert)
	if told[2].More != 197 {
		t.Errorf("the last stands for %d more", told[2].More)
	}
	s.step(time.Second)
	told = s.step(10 * time.Minute)
	s.want("all back", told, mesh.NoticeResolved, mesh.NoticeResolved, mesh.NoticeResolved)
	if told[2].More != 197 {
		t.Errorf("the last stands for %d more", told[2].More)
	}
}

func TestManyInARowAreToldTogetherInTheEnd(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	var all []Condition
	messages, spoken := 0, 0
	for range 120 { // one every five seconds, for ten minutes
		all = append(all, Condition{Rule: CoreLost, Object: "core/" + string(mesh.NewCoreID())})
		for _, c := range s.step(5*time.Second, all...) {
			messages++
			spoken += 1 + c.More
		}
	}
	for range 120 {
		for _, c := range s.step(5*time.Second, all...) {
			messages++
			spoken += 1 + c.More
		}
	}
	if messages > 2*budget || spoken != 120 {
		t.Errorf("%d messages that tell of %d", messages, spoken)
	}
}

func TestThereIsAnEndToHowManyStand(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	var all []Condition
	for range 2 * maxAlerts {
		all = append(all, Condition{Rule: "route-probing", Object: "entry/" + string(mesh.NewEntryID())})
	}
	all = append(all, Condition{Rule: CellDown, Object: "cell/a"})
	s.step(time.Second, all...)
	if len(s.alerts) != maxAlerts || s.alerts[ID(CellDown, "cell/a")].Rule == "" {
		t.Errorf("%d stand", len(s.alerts))
	}
}
