package alert

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// quiet is how long an alert that is over is kept, and so after what time it
	// begins anew.
	quiet = day
	// maxClear bounds how long an alert that comes and goes takes to clear.
	maxClear = 6 * time.Hour
	// What comes at once, or in a row, of one rule is told in few messages.
	foldOver    = 3
	budget      = 10
	budgetTime  = 10 * time.Minute
	maxAlerts   = 1000 // that stand at the same time
	maxCauseLen = 400
	// clocksDiffer is how far a time may lie ahead: servers' clocks do.
	clocksDiffer = time.Minute
)

// Change is one alert as it is from now on.
type Change struct {
	Alert  mesh.Alert
	Forget bool // it is no longer kept
	// Tell is what people are told about it; "": nothing.
	Tell mesh.NoticeKind
	// More are others of the same rule of which this message tells too.
	More int
	// Event is written with the change; "": none.
	Event mesh.EventType
}

// Input is what is the case.
type Input struct {
	Conditions []Condition
	// Unknown are rules about which nothing could be learnt: their alerts stay.
	Unknown map[string]bool
}

// Step compares the alerts that stand, by id, with what is the case at now, and
// returns those that change. Calling it again with the outcome changes nothing.
func (b Book) Step(alerts map[string]mesh.Alert, in Input, now time.Time) []Change {
	now = now.UTC().Round(0) // as it is stored, so that nothing differs but what does
	holds := map[string]Condition{}
	for _, c := range in.Conditions {
		if _, ok := b.rules[c.Rule]; ok {
			holds[c.ID()] = c
		}
	}
	var out []Change
	for id, a := range alerts {
		a = notAhead(a, now)
		r, ok := b.rules[a.Rule]
		c, on := holds[id]
		switch {
		case !ok:
			out = append(out, Change{Alert: a, Forget: true})
		case on:
			out = append(out, b.goesOn(r, a, c, now))
		case !in.Unknown[a.Rule]:
			out = append(out, b.gone(r, a, now))
		}
		delete(holds, id)
	}
	for _, id := range b.first(holds, maxAlerts-len(alerts)) {
		out = append(out, b.begins(b.rules[holds[id].Rule], holds[id], now))
	}
	slices.SortFunc(out, func(x, y Change) int { return cmp.Compare(x.Alert.ID, y.Alert.ID) })
	out = summarise(alerts, out, now)
	return slices.DeleteFunc(out, func(c Change) bool { return !c.Forget && c.Tell == "" && alerts[c.Alert.ID] == c.Alert })
}

// first are at most room ids, the most severe rules' first.
func (b Book) first(holds map[string]Condition, room int) []string {
	ids := slices.SortedFunc(maps.Keys(holds), func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(b.rules[holds[y].Rule].Severity), rank(b.rules[holds[x].Rule].Severity)), cmp.Compare(x, y))
	})
	return ids[:max(0, min(room, len(ids)))]
}

// begins is an alert that was not there.
func (b Book) begins(r Rule, c Condition, now time.Time) Change {
	a := mesh.Alert{ID: c.ID(), Rule: c.Rule, Object: c.Object, State: mesh.AlertPending, Since: now, Changed: now}
	if !c.Since.IsZero() {
		a.Since = c.Since
	}
	return b.goesOn(r, notAhead(a, now), c, now)
}

// notAhead is an alert without times that a server wrote whose clock was ahead:
// until they came, it would neither begin nor clear.
func notAhead(a mesh.Alert, now time.Time) mesh.Alert {
	for _, t := range []*time.Time{&a.Since, &a.Changed, &a.Told, &a.Clearing} {
		if t.Sub(now) > clocksDiffer {
			*t = now
		}
	}
	return a
}

// goesOn is an alert whose cause is there.
func (b Book) goesOn(r Rule, a mesh.Alert, c Condition, now time.Time) Change {
	a.Clearing = time.Time{}
	if a.State == mesh.AlertResolved {
		a.State, a.Since, a.Changed = mesh.AlertPending, now, now
	}
	a.Cause, a.Advice, a.Severity = cut(c.Cause), cut(cmp.Or(c.Advice, r.Advice)), r.Severity
	if !r.fixed && rank(c.Severity) > rank(r.Severity) {
		a.Severity = c.Severity
	}
	out := Change{Alert: a}
	if a.State == mesh.AlertPending {
		if now.Sub(a.Since) < r.For {
			return out
		}
		out.Alert.State, out.Alert.Changed, out.Alert.Times = mesh.AlertFiring, now, a.Times+1
		out.Event = r.Fires
	}
	if due(out.Alert, r.Repeat, now) && !b.muted(a, now) {
		out.Tell, out.Alert.Told = mesh.NoticeAlert, now
	}
	return out
}

// due says whether people are to be told, or reminded, of an alert that fires.
func due(a mesh.Alert, repeat time.Duration, now time.Time) bool {
	if !toldOf(a) {
		return true
	}
	return repeat > 0 && a.Acknowledged == nil && now.Sub(a.Told) >= repeat
}

// toldOf says whether people know that an alert fires.
func toldOf(a mesh.Alert) bool { return !a.Told.Before(a.Changed) }

// gone is an alert whose cause is not there.
func (b Book) gone(r Rule, a mesh.Alert, now time.Time) Change {
	switch a.State {
	case mesh.AlertPending:
		if a.Times == 0 {
			return Change{Alert: a, Forget: true}
		}
		a.State, a.Changed = mesh.AlertResolved, now
	case mesh.AlertResolved:
		return Change{Alert: a, Forget: now.Sub(a.Changed) >= quiet}
	case mesh.AlertFiring:
		return b.clears(r, a, now)
	}
	return Change{Alert: a}
}

func (b Book) clears(r Rule, a mesh.Alert, now time.Time) Change {
	if a.Clearing.IsZero() {
		a.Clearing = now
	}
	if now.Sub(a.Clearing) < clearTime(r.Clear, a.Times) {
		return Change{Alert: a}
	}
	out := Change{Event: r.Over}
	if toldOf(a) && !r.happened() && !b.muted(a, now) {
		out.Tell = mesh.NoticeResolved
	}
	a.State, a.Changed, a.Clearing, a.Acknowledged = mesh.AlertResolved, now, time.Time{}, nil
	out.Alert = a
	return out
}

// clearTime doubles with every time that an alert comes back within a day.
func clearTime(own time.Duration, times int) time.Duration {
	if own == 0 {
		return 0
	}
	return max(own, min(own<<min(max(times-1, 0), 12), maxClear))
}

func cut(s string) string {
	if len(s) <= maxCauseLen {
		return s
	}
	return strings.ToValidUTF8(s[:maxCauseLen], "") + "…"
}
