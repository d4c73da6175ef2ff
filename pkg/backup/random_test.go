package backup_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/meshctl/meshctl/pkg/backup"
)

// generator makes random states.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

// pieces of strings that have broken YAML writers and readers.
var pieces = []string{
	"", " ", "a", "name", "Élise", "名前", "😀", "\u0000", "\u0001", "\n", "\r\n", "\t", "\x7f", "\u0080", "\u0085", "\u00a0", "\u00ad",
	"\u2028", "\u202e", "\ufeff", "\ufffd", "\uffff", "\U000e0001", "\U0001fffe", "\"", "'", "\\", ":", ": ", "#", " #", "-", "- ", "?", "? ", "&a", "*a",
	"!!str", "%", "@", "`", "{", "}", "[", "]", ",", "|", ">", "~", "null", "true", "no", "Off", "y", "1", "-1", "0x1f", "1e3", "1_000", ".inf", ".nan",
	"2026-11-30", "2026-11-30T08:00:00Z", "12:30:45", "<<", "=", "---", "...", "${x}", "</script>", "sealed:v1:AAAA", "\u061c", "e5", "NaN", "Inf",
}

var numbers = []string{
	"0", "-0", "1", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "12345678901234567890.5",
	"0.1", "1.0", "1.50", "1e5", "1E+400", "-1.5e-300", "3.141592653589793238462643383279502884197",
}

func (g generator) pick(of []string) string { return of[g.IntN(len(of))] }

func (g generator) text() string {
	switch g.IntN(20) {
	case 0:
		return strings.Repeat(g.pick(pieces), 1+g.IntN(600))
	case 1:
		return string([]rune{rune(g.IntN(0xd800)), rune(0xe000 + g.IntN(0x10ffff-0xe000))})
	}
	var b strings.Builder
	for range g.IntN(4) {
		b.WriteString(g.pick(pieces))
	}
	return b.String()
}

func (g generator) value(depth int) any {
	kind := g.IntN(10)
	if depth > 12 {
		kind = g.IntN(6)
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2, 3:
		return json.Number(g.pick(numbers))
	case 4, 5:
		return g.text()
	case 6, 7:
		out := make([]any, g.IntN(4))
		for i := range out {
			out[i] = g.value(depth + 1)
		}
		return out
	}
	return g.object(depth + 1)
}

func (g generator) object(depth int) map[string]any {
	out := make(map[string]any)
	for range g.IntN(5) {
		out[g.text()] = g.value(depth)
	}
	return out
}

// deep nests n levels.
func (g generator) deep(n int) any {
	var v any = g.text()
	for range n {
		if g.IntN(2) == 0 {
			v = []any{v}
		} else {
			v = map[string]any{g.text(): v}
		}
	}
	return v
}

// members as they are in stored objects, known and unknown, at their place and
// with values that do not belong there.
var memberNames = strings.Fields(`schema minReader id name state created limits secret verifiers labels assigned
	record payload note reason addresses certLife epoch data used by egress running recipients remotes later`)

func (g generator) stored(id string) map[string]any {
	out := g.object(1)
	for range g.IntN(10) {
		out[g.pick(memberNames)] = g.value(2)
	}
	if g.IntN(3) > 0 {
		out["id"] = id
		out["limits"] = map[string]any{"traffic": json.Number(g.pick(numbers)), "connections": g.value(3), g.text(): g.value(3)}
		out["certLife"] = map[string]any{"node": "90s", "new": g.value(3)}
		out["record"] = map[string]any{"id": id, "reason": g.text()}
	}
	if g.IntN(40) == 0 {
		out["deep"] = g.deep(300)
	}
	if g.IntN(100) == 0 {
		out["long"] = strings.Repeat(g.pick(pieces[1:])+"x", 20000)
	}
	return out
}

var folderNames = strings.Fields(`members devices cells cores entries tokens certs revocations admins servers config ca
	backup rollouts totals later`)

func (g generator) id() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-."
	n := 1 + g.IntN(20)
	b := []byte{letters[g.IntN(36)]}
	for range n {
		b = append(b, letters[g.IntN(len(letters))])
	}
	return string(b)
}

func (g generator) objects(n int) []backup.Object {
	seen := make(map[string]bool)
	var out []backup.Object
	for range n {
		o := backup.Object{Folder: g.pick(folderNames), ID: g.id()}
		if seen[o.Name()] {
			continue
		}
		seen[o.Name()] = true
		o.JSON = backup.EncodeJSON(g.stored(o.ID))
		out = append(out, o)
	}
	return out
}

// change makes some objects other ones, takes some away and adds some.
func (g generator) change(objects []backup.Object) []backup.Object {
	var out []backup.Object
	have := make(map[string]bool)
	for _, o := range objects {
		switch g.IntN(6) {
		case 0:
			continue
		case 1:
			o.JSON = backup.EncodeJSON(g.stored(o.ID))
		}
		have[o.Name()] = true
		out = append(out, o)
	}
	for i, o := range g.objects(len(objects) / 4) {
		if o.ID = fmt.Sprintf("%.100s-%d", o.ID, i); !have[o.Name()] {
			out = append(out, o)
		}
	}
	g.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
