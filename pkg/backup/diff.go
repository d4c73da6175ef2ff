package backup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Difference is what happened to one object between two states.
type Difference struct {
	Folder, ID string
	Kind       string // "device" for an object of devices
	Name       string // its label, "" when it has none or it is not readable
	What       Event
	Members    []MemberChange // for a changed object, and what a new or a gone one says
}

// Event says what happened to an object.
type Event string

// What can happen.
const (
	Created Event = "created"
	Changed Event = "changed"
	Removed Event = "removed"
)

// MemberChange is one member before and after, as text; "" is none.
type MemberChange struct {
	Member        string // nested ones with dots
	Before, After string // "" for a secret, of which only Secret is said
	Secret        bool
}

// Diff compares two states, both read with the same rights. Secrets are never
// shown, only that they changed.
func Diff(a, b *State) []Difference {
	before, after := byName(a.Objects), byName(b.Objects)
	names := make(map[string]bool)
	for n := range before {
		names[n] = true
	}
	for n := range after {
		names[n] = true
	}
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if d, ok := difference(before[name], after[name]); ok {
			out = append(out, d)
		}
	}
	return append(out, beside(a, b)...)
}

func byName(objects []Object) map[string]Object {
	out := make(map[string]Object, len(objects))
	for _, o := range objects {
		out[o.Name()] = o
	}
	return out
}

func difference(a, b Object) (Difference, bool) {
	d := Difference{Folder: a.Folder, ID: a.ID, What: Changed}
	x, err1 := parseJSON(a.JSON)
	y, err2 := parseJSON(b.JSON)
	switch {
	case err1 == nil && err2 == nil:
		if string(appendObject(nil, x)) == string(appendObject(nil, y)) {
			return Difference{}, false
		}
	case a.JSON == nil:
		d.Folder, d.ID, d.What = b.Folder, b.ID, Created
	case b.JSON == nil:
		d.What = Removed
	}
	d.Kind = KindOf(d.Folder)
	d.Name, _ = x["name"].(string)
	if n, ok := y["name"].(string); ok {
		d.Name = n
	}
	ruleOf(d.Folder).changes("", x, y, &d.Members)
	return d, true
}

// changes compares member by member, and goes into the objects whose members
// the rule knows.
func (r *rule) changes(prefix string, a, b map[string]any, out *[]MemberChange) {
	names := make(map[string]bool)
	for k := range a {
		names[k] = true
	}
	for k := range b {
		names[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		x, inA := a[k]
		y, inB := b[k]
		if prefix == "" && (k == memberSchema || k == memberMinReader) || inA && inB && same(x, y) {
			continue
		}
		m := r.members[k]
		if m != nil && m.members != nil {
			o1, ok1 := x.(map[string]any)
			o2, ok2 := y.(map[string]any)
			if (ok1 || !inA) && (ok2 || !inB) {
				m.changes(prefix+k+".", o1, o2, out)
				continue
			}
		}
		c := MemberChange{Member: prefix + k, Secret: m == nil || !m.public && !m.personal}
		if !c.Secret {
			c.Before, c.After = shown(x, inA), shown(y, inB)
		}
		*out = append(*out, c)
	}
}

func same(x, y any) bool { return string(appendJSON(nil, x)) == string(appendJSON(nil, y)) }

// shown is a value as people read it. Text is not quoted; what is sealed inside
// is redacted.
func shown(v any, there bool) string {
	if !there {
		return ""
	}
	v = redacted(v)
	if s, ok := v.(string); ok {
		return s
	}
	return string(appendJSON(nil, v))
}

// redacted copies v without sealed values.
func redacted(v any) any {
	switch t := v.(type) {
	case string:
		if strings.Contains(t, mesh.SealedPrefix) {
			return "[redacted]"
		}
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = redacted(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, e := range t {
			out[k] = redacted(e)
		}
		return out
	}
	return v
}

// beside compares what is no object.
func beside(a, b *State) []Difference {
	var out []Difference
	if string(a.Keys.SealedRoot) != string(b.Keys.SealedRoot) || !slices.Equal(a.Keys.Data, b.Keys.Data) {
		out = append(out, Difference{Folder: "keys", Kind: "keys", What: Changed, Members: []MemberChange{{Member: "keys", Secret: true}}})
	}
	x, y := recipientText(a), recipientText(b)
	if x != y {
		out = append(out, Difference{Folder: dirRecipients, Kind: "recipients", What: Changed, Members: []MemberChange{{Member: "recipients", Before: x, After: y}}})
	}
	return out
}

func recipientText(s *State) string {
	var names []string
	for _, r := range s.Recipients {
		names = append(names, fmt.Sprintf("%s %s", r.Name, r.Key))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
