package bot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/bot/texts"
)

// hostile is the name of a node that B-07 is about.
const hostile = "<b>_*[x](tg://user?id=1)\u202e😀&amp;\u2067"

// TestLongTextsAreSplitBetweenLines holds B-07.
func TestLongTextsAreSplitBetweenLines(t *testing.T) {
	var list strings.Builder
	for i := range 150 {
		fmt.Fprintf(&list, "<b>%d</b> %s <code>core-abcdefghijklmnop</code>\n", i, texts.Escape(hostile))
	}
	parts, file := split("<blockquote>" + list.String() + "</blockquote>")
	if file != "" || len(parts) < 3 {
		t.Fatalf("%d parts, a file of %d bytes", len(parts), len(file))
	}
	lines := 0
	for _, p := range parts {
		if fault := bottest.Check(p); fault != "" {
			t.Errorf("%s: %s", fault, p)
		}
		for line := range strings.SplitSeq(strings.TrimSpace(bottest.Plain(p)), "\n") {
			if !strings.HasSuffix(line, "core-abcdefghijklmnop") {
				t.Errorf("a line was cut: %q", line)
			}
			lines++
		}
	}
	if lines != 150 {
		t.Errorf("%d lines arrive", lines)
	}
}

// TestWhatIsLongerStillIsAFile: a list of 500 nodes.
func TestWhatIsLongerStillIsAFile(t *testing.T) {
	var list strings.Builder
	for i := range 500 {
		fmt.Fprintf(&list, "<b>%d</b> %s <code>core-abcdefghijklmnop, and what it does</code>\n", i, texts.Escape(hostile))
	}
	parts, file := split(list.String())
	if parts != nil || strings.Count(file, "\n") != 500 || strings.Contains(file, "<code>") || !strings.Contains(file, "7 <b>_*[x](tg://user?id=1)😀&amp; core") {
		t.Errorf("%d parts, %.200q", len(parts), file)
	}
	o := newOffice(t)
	ann := o.person(7, "Ann", "en", operatorSelf())
	routes := simple()
	routes.Talk = func(ctx context.Context, s *Session, _ string) error {
		return s.Show(ctx, Screen{Text: list.String(), Rows: [][]Button{Row(Button{Label: "Menu", Action: "menu"})}})
	}
	o.run(routes)
	ann.Write("all")
	o.api.Settle(t)
	last := ann.Last()
	if last.File != "meshctl.txt" || string(last.Data) != file || last.DataOf("Menu") == "" {
		t.Errorf("got\n%s", ann.Transcript(0))
	}
}

// FuzzSplit: every part is one that Telegram takes, and nothing is lost.
func FuzzSplit(f *testing.F) {
	f.Add("<b>a</b>\n", "é😀&amp;", uint16(900))
	f.Add("<blockquote><b>", "x", uint16(5000))
	f.Add("</b>", "&lt;", uint16(2))
	f.Add("<a href=\"tg://user?id=1\">\n", "\n\n", uint16(3000))
	f.Fuzz(func(t *testing.T, a, b string, n uint16) {
		text := strings.Repeat(a+b, min(int(n), 12_000/(1+len(a)+len(b))))
		if !utf8.ValidString(text) || bottest.Check(text) != "" && bottest.Check(text) != "Bad Request: message is too long" || deep(a+b) {
			return
		}
		parts, file := split(text)
		if file != "" {
			return
		}
		var back strings.Builder
		for _, p := range parts {
			if fault := bottest.Check(p); fault != "" {
				t.Errorf("%s: %.300q", fault, p)
			}
			back.WriteString(bottest.Plain(p))
		}
		if got, want := bare(back.String()), bare(bottest.Plain(text)); got != want {
			t.Errorf("%d runes became %d", utf8.RuneCountInString(want), utf8.RuneCountInString(got))
		}
	})
}

// deep says whether there is much markup that is written in another way than ours.
func deep(s string) bool { return strings.Count(s, "<") > 20 || strings.ToLower(s) != s }

// bare is a text without space, which moves where it is cut.
func bare(s string) string { return strings.Join(strings.Fields(s), "") }
