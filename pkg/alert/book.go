package alert

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Book is the table as the configuration has changed it.
type Book struct {
	rules map[string]Rule
	mutes []mesh.AlertMute
	raise map[mesh.EventType][]string // names of the rules that an event concerns
}

// NewBook applies settings to the table. Settings of rules that this program does
// not have are ignored: a newer one may have written them.
func NewBook(s mesh.AlertSettings) Book {
	b := Book{rules: map[string]Rule{}, mutes: s.Mutes, raise: map[mesh.EventType][]string{}}
	for _, r := range Rules() {
		b.rules[r.Name] = r
	}
	for _, set := range s.Rules {
		if r, ok := b.rules[set.Rule]; ok {
			b.rules[set.Rule] = changed(r, set)
		}
		if set.Disabled {
			delete(b.rules, set.Rule)
		}
	}
	for _, name := range b.Names() {
		r := b.rules[name]
		for _, t := range slices.Concat(r.Raise, r.End) {
			b.raise[t] = append(b.raise[t], name)
		}
	}
	return b
}

func changed(r Rule, set mesh.AlertRuleSettings) Rule {
	take := func(to *time.Duration, from *mesh.Duration) {
		if from != nil {
			*to = time.Duration(*from)
		}
	}
	take(&r.For, set.For)
	take(&r.Clear, set.Clear)
	take(&r.Repeat, set.Repeat)
	if set.Severity != "" {
		r.Severity = set.Severity
		r.fixed = true
	}
	return r
}

// Names are the rules that are not disabled, in order.
func (b Book) Names() []string { return slices.Sorted(maps.Keys(b.rules)) }

// Rule returns a rule as it is set; false when it is disabled or does not exist.
func (b Book) Rule(name string) (Rule, bool) {
	r, ok := b.rules[name]
	return r, ok
}

// Check refuses settings of rules that do not exist. It returns ErrInvalid.
func Check(s mesh.AlertSettings) error {
	for _, set := range s.Rules {
		if err := known(set.Rule); err != nil {
			return err
		}
	}
	for _, m := range s.Mutes {
		if m.Rule == "" {
			continue
		}
		if err := known(m.Rule); err != nil {
			return err
		}
	}
	return nil
}

func known(name string) error {
	var names []string
	for _, r := range Rules() {
		names = append(names, r.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	err := fmt.Errorf("alert: rule %q: there is none of that name: %w", mesh.Quotable(name), mesh.ErrInvalid)
	if like := mesh.Nearest(name, names); len(like) > 0 {
		return mesh.WithHint(err, "did you mean "+like[0]+"?")
	}
	return mesh.WithHint(err, "see meshctl admin alert rule list")
}

// Muted says whether people are not to be told of an alert at now.
func Muted(mutes []mesh.AlertMute, rule, object string, now time.Time) bool {
	return slices.ContainsFunc(mutes, func(m mesh.AlertMute) bool {
		return now.Before(m.Until) && (m.Rule == "" || m.Rule == rule) && (m.Object == "" || m.Object == object)
	})
}

func (b Book) muted(a mesh.Alert, now time.Time) bool { return Muted(b.mutes, a.Rule, a.Object, now) }
