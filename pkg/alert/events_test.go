package alert

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func happen(t mesh.EventType, object string, ago time.Duration) mesh.Event {
	return mesh.Event{Type: t, Object: object, Time: start.Add(-ago), Cause: string(t), Severity: mesh.Warning}
}

func TestConditionsFromEvents(t *testing.T) {
	firing := func(rule, object string, since time.Duration, clearing bool) map[string]mesh.Alert {
		a := mesh.Alert{ID: ID(rule, object), Rule: rule, Object: object, State: mesh.AlertFiring, Since: start.Add(-since), Cause: "kept"}
		if clearing {
			a.Clearing = start.Add(-time.Minute)
		}
		return map[string]mesh.Alert{a.ID: a}
	}
	for name, c := range map[string]struct {
		events []mesh.Event
		alerts map[string]mesh.Alert
		want   map[string]string // rule → object
	}{
		"nothing": {},
		"a beginning without an end": {
			events: []mesh.Event{happen(mesh.EventCellUnreachable, "cell/a", time.Hour)},
			want:   map[string]string{"cell-unreachable": "cell/a"}},
		"an end after the beginning": {
			events: []mesh.Event{happen(mesh.EventCellUnreachable, "cell/a", time.Hour), happen(mesh.EventCellReachable, "cell/a", time.Minute)}},
		"the end of another object": {
			events: []mesh.Event{happen(mesh.EventCellUnreachable, "cell/a", time.Hour), happen(mesh.EventCellReachable, "cell/b", time.Minute)},
			want:   map[string]string{"cell-unreachable": "cell/a"}},
		"begun, ended, begun": {
			events: []mesh.Event{happen(mesh.EventBotDown, "bot/telegram", time.Hour), happen(mesh.EventBotUp, "bot/telegram", time.Minute), happen(mesh.EventBotDown, "bot/telegram", 0)},
			want:   map[string]string{"bot-down": "bot/telegram"}},
		"one end for two rules": {
			events: []mesh.Event{happen(mesh.EventBotTokenShared, "bot/telegram", 3*time.Minute), happen(mesh.EventBotUp, "bot/telegram", 2*time.Minute)}},
		"a beginning longer ago than events are looked at": {
			alerts: firing("cell-unreachable", "cell/a", 5*day, false),
			want:   map[string]string{"cell-unreachable": "cell/a"}},
		"one whose end was seen before":  {alerts: firing("cell-unreachable", "cell/a", 5*day, true)},
		"one of which nobody speaks":     {alerts: firing("cell-unreachable", "cell/a", 40*day, false)},
		"something that is over by time": {events: []mesh.Event{happen(mesh.EventDuplicateNode, "core/a", 61*time.Minute)}},
		"something that counts still": {
			events: []mesh.Event{happen(mesh.EventDuplicateNode, "core/a", 59*time.Minute)},
			want:   map[string]string{"duplicate-node": "core/a"}},
		"something that happened is not kept by its alert": {alerts: firing("duplicate-node", "core/a", 2*time.Hour, false)},
		"two guesses are mistakes": {
			events: []mesh.Event{happen(mesh.EventTokenGuess, "address/1", 2*time.Minute), happen(mesh.EventTokenGuess, "address/2", time.Minute)}},
		"three guesses are an attempt, whoever makes them": {
			events: []mesh.Event{happen(mesh.EventTokenGuess, "address/1", 3*time.Minute), happen(mesh.EventTokenGuess, "address/2", 2*time.Minute), happen(mesh.EventTokenGuess, "address/3", time.Minute)},
			want:   map[string]string{"token-guess": Everything}},
		"events without a rule": {events: []mesh.Event{happen(mesh.EventCoreReady, "core/a", 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := NewBook(mesh.AlertSettings{}).FromEvents(c.events, c.alerts, start)
			if len(got) != len(c.want) {
				t.Fatalf("%+v, want %v", got, c.want)
			}
			for _, g := range got {
				if c.want[g.Rule] != g.Object {
					t.Errorf("%+v, want %v", g, c.want)
				}
			}
		})
	}
}

// What an event says of itself counts where it is worse than the rule's word.
func TestAnEventMayBeMoreSevereThanItsRule(t *testing.T) {
	s := newSim(t, mesh.AlertSettings{})
	e := happen(mesh.EventCertOrderFailed, "core/a", 0)
	e.Severity, e.Advice = mesh.Critical, "hurry"
	told := s.step(0, s.book.FromEvents([]mesh.Event{e}, nil, s.now)...)
	s.want("told", told, mesh.NoticeAlert)
	if a := told[0].Alert; a.Severity != mesh.Critical || a.Advice != "hurry" || a.Cause != e.Cause {
		t.Errorf("%+v", a)
	}
}
