package backup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	maxActs       = 40
	maxActObjects = 10
	maxSubject    = 72
)

// Summary says what a Draft changed. It holds ids alone, no names: it becomes
// the message of a commit that others may see.
type Summary struct {
	// Changed is false when the base says already what the state is; then there
	// are no files.
	Changed bool
	// Full says that the draft builds on no base, and Reason why: of the files
	// that are the backup's only those handed out remain.
	Full   bool
	Reason string

	Mesh                    string
	Epoch, Leader, Revision int64
	Time                    time.Time

	Files, Gone int   // written and removed
	Bytes       int64 // of those written
	Objects     map[string]Count
	Acts        []Act
	MoreActs    int // records that are not among Acts
}

// Count is what became of the objects of a folder.
type Count struct{ Added, Changed, Removed int }

// Act is something that somebody did, from the audit records.
type Act struct {
	Actor, Action string
	Objects       []string // kind/id
	More          int      // objects that are not among these
}

func (s *Summary) count(folder string, f func(*Count)) {
	if s.Objects == nil {
		s.Objects = make(map[string]Count)
	}
	c := s.Objects[folder]
	f(&c)
	s.Objects[folder] = c
}

// record adds an audit record.
func (s *Summary) record(data []byte) {
	var r struct {
		Actor   string `json:"actor"`
		Action  string `json:"action"`
		Changes []struct {
			Object string `json:"object"`
		} `json:"changes"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		s.MoreActs++ // a later version's record; it is in the backup all the same
		return
	}
	actor, action := word(r.Actor), word(r.Action)
	i := slices.IndexFunc(s.Acts, func(a Act) bool { return a.Actor == actor && a.Action == action })
	if i < 0 {
		if len(s.Acts) == maxActs {
			s.MoreActs++
			return
		}
		i = len(s.Acts)
		s.Acts = append(s.Acts, Act{Actor: actor, Action: action})
	}
	a := &s.Acts[i]
	for _, c := range r.Changes {
		switch object := word(c.Object); {
		case slices.Contains(a.Objects, object):
		case len(a.Objects) == maxActObjects:
			a.More++
		default:
			a.Objects = append(a.Objects, object)
		}
	}
}

// word keeps what a record says from becoming more than a word of a message.
func word(s string) string {
	if len(s) > 120 {
		s = s[:120]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(":./_-", r):
			return r
		}
		return '?'
	}, s)
}

func (a Act) String() string {
	parts := append([]string{a.Action}, a.Objects...)
	if a.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", a.More))
	}
	if a.Actor != "" {
		parts = append(parts, "by", a.Actor)
	}
	return strings.Join(parts, " ")
}

// Message is the message of the commit: a subject, and what was done.
func (s Summary) Message() string {
	var b strings.Builder
	b.WriteString(s.subject())
	b.WriteString("\n\n")
	for _, a := range s.Acts {
		b.WriteString(a.String() + "\n")
	}
	if s.MoreActs > 0 {
		fmt.Fprintf(&b, "and %d more\n", s.MoreActs)
	}
	if len(s.Acts) > 0 {
		b.WriteString("\n")
	}
	for _, folder := range slices.Sorted(maps.Keys(s.Objects)) {
		b.WriteString(folder + s.Objects[folder].String() + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (c Count) String() string {
	var out strings.Builder
	for _, p := range []struct {
		n    int
		verb string
	}{{c.Added, "added"}, {c.Changed, "changed"}, {c.Removed, "removed"}} {
		if p.n > 0 {
			fmt.Fprintf(&out, ", %d %s", p.n, p.verb)
		}
	}
	return ":" + strings.TrimPrefix(out.String(), ",")
}

func (s Summary) subject() string {
	switch {
	case s.Full:
		return "Backup of the whole state"
	case len(s.Acts) == 1 && s.MoreActs == 0 && len(s.Acts[0].String()) <= maxSubject:
		return s.Acts[0].String()
	case len(s.Acts) > 0:
		var actions []string
		for _, a := range s.Acts {
			if !slices.Contains(actions, a.Action) {
				actions = append(actions, a.Action)
			}
		}
		line := strings.Join(actions, ", ")
		if len(line) > maxSubject {
			line = fmt.Sprintf("%d kinds of change", len(actions))
		}
		return line
	}
	return "Changes that follow from earlier ones"
}
