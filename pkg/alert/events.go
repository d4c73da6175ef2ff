package alert

import (
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// latch is how long an event counts whose end was not seen.
const latch = 30 * day

// FromEvents returns the conditions that events give reason for. events are those
// of the last Window, oldest first; alerts are those that stand, by id: what they
// began with may be longer ago than that.
func (b Book) FromEvents(events []mesh.Event, alerts map[string]mesh.Alert, now time.Time) []Condition {
	f := fold{book: b, now: now, seen: map[key]*story{}}
	for _, e := range events {
		for _, name := range b.raise[e.Type] {
			f.add(b.rules[name], e)
		}
	}
	for _, a := range alerts {
		r, ok := b.rules[a.Rule]
		if ok && len(r.Raise) > 0 && !r.happened() && f.seen[key{a.Rule, a.Object}] == nil && latched(a, now) {
			f.out = append(f.out, Condition{Rule: a.Rule, Object: a.Object, Cause: a.Cause, Advice: a.Advice, Severity: a.Severity, Since: a.Since})
		}
	}
	return f.conditions()
}

// latched says whether an alert of whose cause no event tells any more goes on.
func latched(a mesh.Alert, now time.Time) bool {
	return a.State != mesh.AlertResolved && a.Clearing.IsZero() && now.Sub(a.Since) < latch
}

// story is what events tell of one rule and object.
type story struct {
	rule  Rule
	first time.Time // of those that count
	last  mesh.Event
	count int
}

type key struct{ rule, object string }

type fold struct {
	book Book
	now  time.Time
	seen map[key]*story
	out  []Condition
}

func (f *fold) add(r Rule, e mesh.Event) {
	if r.happened() && f.now.Sub(e.Time) >= r.Lasts {
		return
	}
	object := e.Object
	if r.As != "" {
		object = r.As
	}
	id := key{r.Name, object}
	if slices.Contains(r.End, e.Type) {
		f.seen[id] = &story{rule: r}
		return
	}
	s := f.seen[id]
	if s == nil || s.count == 0 {
		s = &story{rule: r, first: e.Time}
		f.seen[id] = s
	}
	s.count++
	s.last = e
	s.last.Object = object
}

func (f *fold) conditions() []Condition {
	for _, s := range f.seen {
		if s.count < max(1, s.rule.Least) {
			continue
		}
		f.out = append(f.out, Condition{
			Rule: s.rule.Name, Object: s.last.Object, Cause: s.last.Cause, Advice: s.last.Advice, Severity: s.last.Severity, Since: s.first,
		})
	}
	return f.out
}
