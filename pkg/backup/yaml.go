package backup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// flowFrom is the depth from which values are written on one line.
	flowFrom = 6
	// maxSimpleKey is the length of a key, as it is written, up to which YAML finds
	// it without a question mark before it; it says 1024.
	maxSimpleKey = 1000
)

// A writer turns JSON values into YAML that reads like a list of changes under
// git diff: a member on each line, sorted. It is our own, because the text
// decides about digests and commits: another version of a library must not
// write it differently.
type writer struct {
	b    []byte
	flow int // depth from which values are written on one line
}

// toYAML returns the one YAML form of a JSON object.
func toYAML(m map[string]any) []byte {
	for _, flow := range []int{flowFrom, 1} {
		w := writer{flow: flow}
		if len(m) == 0 {
			return []byte("{}\n")
		}
		w.block(m, 0)
		if len(w.b) <= MaxObject || flow == 1 {
			return w.b
		}
	}
	panic("unreachable")
}

// block writes the members of m, the first at the place where the text is.
func (w *writer) block(m map[string]any, depth int) {
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			w.indent(depth)
		}
		if isLong(k) {
			w.add("? ")
			w.str(k)
			w.add("\n")
			w.indent(depth)
			w.add(": ")
			w.oneLine(m[k])
			w.add("\n")
			continue
		}
		w.str(k)
		w.add(":")
		w.value(m[k], depth+1)
	}
}

func (w *writer) list(l []any, depth int) {
	for i, e := range l {
		if i > 0 {
			w.indent(depth)
		}
		w.add("-")
		switch {
		case w.isBlock(e, depth+1):
			w.add(" ")
			w.nested(e, depth+1)
		default:
			w.value(e, depth+1)
		}
	}
}

// value writes what follows a key, or a hyphen, with the end of the line.
func (w *writer) value(v any, depth int) {
	if !w.isBlock(v, depth) {
		w.add(" ")
		w.oneLine(v)
		w.add("\n")
		return
	}
	w.add("\n")
	w.indent(depth)
	w.nested(v, depth)
}

func (w *writer) nested(v any, depth int) {
	switch t := v.(type) {
	case map[string]any:
		w.block(t, depth)
	case []any:
		w.list(t, depth)
	}
}

// isBlock says whether v is written on lines of its own.
func (w *writer) isBlock(v any, depth int) bool {
	switch t := v.(type) {
	case map[string]any:
		return len(t) > 0 && depth < w.flow
	case []any:
		return len(t) > 0 && depth < w.flow
	}
	return false
}

func (w *writer) oneLine(v any) {
	switch t := v.(type) {
	case nil:
		w.add("null")
	case bool:
		w.b = fmt.Append(w.b, t)
	case json.Number:
		w.add(string(t))
	case string:
		w.str(t)
	case []any:
		w.add("[")
		for i, e := range t {
			w.comma(i)
			w.oneLine(e)
		}
		w.add("]")
	case map[string]any:
		w.add("{")
		for i, k := range slices.Sorted(maps.Keys(t)) {
			w.comma(i)
			if isLong(k) {
				w.add("? ")
			}
			w.quoted(k)
			w.add(" : ")
			w.oneLine(t[k])
		}
		w.add("}")
	default:
		panic(fmt.Sprintf("backup: a %T is no JSON value", v))
	}
}

// isLong says whether a key needs a question mark before it.
func isLong(key string) bool {
	if len(key) <= maxSimpleKey/10 { // \U000e0001 is the longest form of a rune
		return false
	}
	var w writer
	w.quoted(key)
	return len(w.b) > maxSimpleKey
}

func (w *writer) comma(i int) {
	if i > 0 {
		w.add(", ")
	}
}

func (w *writer) add(s string) { w.b = append(w.b, s...) }

func (w *writer) indent(depth int) {
	for range depth {
		w.b = append(w.b, ' ', ' ')
	}
}

func (w *writer) str(s string) {
	if isPlain(s) {
		w.add(s)
		return
	}
	w.quoted(s)
}

// isPlain says whether every YAML reader takes s for a string without quotes.
func isPlain(s string) bool {
	if s == "" || len(s) > 200 || !isLetter(s[0]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != '/' {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf":
		return false
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func (w *writer) quoted(s string) {
	w.add(`"`)
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.b = append(w.b, '\\', byte(r))
		case r == '\n':
			w.add(`\n`)
		case r == '\t':
			w.add(`\t`)
		case !isEscaped(r):
			w.b = utf8.AppendRune(w.b, r)
		case r > 0xffff:
			w.b = fmt.Appendf(w.b, `\U%08x`, r)
		default:
			w.b = fmt.Appendf(w.b, `\u%04x`, r)
		}
	}
	w.add(`"`)
}

// isEscaped are the runes that YAML forbids, that end a line somewhere, or that
// change how the text around them looks.
func isEscaped(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0xa0, r == 0xad, r == 0x61c, r == 0x180e,
		r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202f, r >= 0x2060 && r <= 0x206f,
		r == 0xfeff, r >= 0xfff0 && r <= 0xffff, r >= 0xe0000 && r <= 0xe0fff, r&0xfffe == 0xfffe:
		return true
	}
	return false
}
