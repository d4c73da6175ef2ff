package subscription

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// awkwardNames are what people and attackers call things.
func awkwardNames() []string {
	return []string{
		"Иван Петров", "🇩🇪 DE #1", "a+b", "50%", "%41", "x|y@z", "two\nlines", "a\r\n- name: evil", strings.Repeat("длинное имя ", 17),
		"a: b", `"x`, "it's", "- y", "!!x", "{", "}", "[", "*a", "&a", "yes", "no", "null", "~", "1e3", "0x10", "12:30:45", "2026-11-30",
		"\x07", "\x00", "\t", "a\u0085b", "a\u2028b", "a\u2029b", "\ufeffa", "\u202eabc", "\ufffe", "\U0010ffff", "e\u0301", "é",
		"\n  - name: evil\n    type: direct", "a,DIRECT", "# comment", "a # b", "<script>alert(1)</script>", "</pre>&amp;", "${HOME}", "$(id)", "`id`",
		`\`, `\u0041`, "%s%d", "'; rm -rf / #", "a*/b", "//", "?", "=", "|", ">", "@", "`",
	}
}

func TestTwinsAndReservedNamesGetANumber(t *testing.T) {
	in := []string{"a", "a", "a 2", "a", "", "  ", "DIRECT", "Auto", "Proxy", "direct", "bad\xff", "dns-out", "auto"}
	var got []string
	for _, n := range named(plainNodes(in...).Nodes) {
		got = append(got, n.Name)
	}
	want := []string{"a", "a 3", "a 2", "a 4", "node", "node 2", "DIRECT 2", "Auto 2", "Proxy 2", "direct 2", "bad\uFFFD", "dns-out 2", "auto"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestThousandsOfTwinsAreNamedAtOnce(t *testing.T) {
	names := slices.Repeat([]string{"twin"}, 20000)
	seen := map[string]bool{}
	for _, n := range named(plainNodes(names...).Nodes) {
		seen[n.Name] = true
	}
	if len(seen) != len(names) {
		t.Errorf("%d names for %d nodes", len(seen), len(names))
	}
}

// TestNamesSurvive reads each format back with a parser of its own: the names are
// those that were put in, no more and no fewer.
func TestNamesSurvive(t *testing.T) {
	names := awkwardNames()
	var want []string
	for _, n := range names {
		if strings.TrimSpace(n) == "" {
			n = "node"
		}
		want = append(want, n)
	}
	for _, r := range readers() {
		if got := r.names(t, render(t, r.format, plainNodes(names...)).Data); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", r.format, got, want)
		}
	}
}

// FuzzDocuments puts hostile text into all that holds text.
func FuzzDocuments(f *testing.F) {
	for _, n := range awkwardNames() {
		f.Add(n, "b", n)
	}
	f.Add("\xff", "\xff", "\xff")
	f.Fuzz(func(t *testing.T, first, second, text string) {
		p := plainNodes(first, second)
		for i := range p.Nodes {
			n := &p.Nodes[i]
			n.Cell, n.Path, n.Service, n.User, n.Password = text, text, text, text, mesh.Secret(text)
		}
		p.Title, p.Announce, p.Member = text, text, text
		var want []string
		for _, n := range named(p.Nodes) {
			want = append(want, n.Name)
		}
		if utf8.ValidString(first) && utf8.ValidString(second) && strings.TrimSpace(first) != "" && !slices.Contains(reserved(), first) {
			if want[0] != first {
				t.Errorf("%q became %q", first, want[0])
			}
		}
		for _, r := range readers() {
			if got := r.names(t, render(t, r.format, p).Data); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", r.format, got, want)
			}
		}
	})
}
