package bot

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/bot/texts"
)

const (
	// maxText is how long a message may be, in UTF-16 units; ours count markup too.
	maxText = 4096
	// maxParts is how many messages one screen may be; what is longer is a file.
	maxParts = 4
	// maxCaption is how long the text below a picture or file may be.
	maxCaption = 1024
)

// tagged matches a tag or an entity, which must not be cut; atTagged one at the
// beginning.
var (
	tagged   = regexp.MustCompile(`<(/?)([a-z-]+)(?:[ \n\t][^<>]*)?>|&[#a-zA-Z0-9]{1,8};`)
	atTagged = regexp.MustCompile(`^(?:` + tagged.String() + `)`)
)

// split cuts HTML into texts that each fit a message, between lines where that can
// be; tags that are open there are closed and opened again. When it would be more
// than maxParts it returns a plain text for a file instead.
func split(html string) (parts []string, file string) {
	if units(html) <= maxText {
		return []string{html}, ""
	}
	c := cutter{}
	for line := range strings.SplitAfterSeq(html, "\n") {
		c.line(line)
	}
	c.flush()
	if len(c.parts) > maxParts {
		return nil, plainText(html)
	}
	return c.parts, ""
}

// cutter puts parts together.
type cutter struct {
	parts []string
	part  strings.Builder
	size  int      // of part, in units
	empty bool     // part has nothing but tags that were opened again
	open  []string // tags, as written
}

func (c *cutter) line(line string) {
	if c.size+units(line)+c.closing(line) > maxText && !c.empty {
		c.flush()
	}
	for at := 0; at < len(line); {
		n := tokenSize(line[at:])
		c.token(line[at : at+n])
		at += n
	}
}

// tokenSize is how long what cannot be cut is, at the beginning of s.
func tokenSize(s string) int {
	if s[0] == '<' || s[0] == '&' {
		if loc := atTagged.FindStringIndex(s); loc != nil {
			return loc[1]
		}
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}

func (c *cutter) token(s string) {
	if c.size+units(s)+c.closing(s) > maxText {
		c.flush()
	}
	c.part.WriteString(s)
	c.size += units(s)
	switch opens, is := tagIn(s); {
	case !is:
		c.empty = false
	case opens:
		c.open = append(c.open, s)
	case len(c.open) > 0:
		c.open = c.open[:len(c.open)-1]
	}
}

// tagIn says whether a token is a tag, and one that opens something.
func tagIn(s string) (opens, is bool) {
	is = len(s) > 2 && s[0] == '<'
	return is && s[1] != '/', is
}

// closing is how long it is to close all tags that are open, and those that s may
// open.
func (c *cutter) closing(s string) int {
	n := 0
	for _, tag := range c.open {
		n += len(closer(tag))
	}
	if strings.Contains(s, "<") {
		for _, m := range tagged.FindAllStringSubmatch(s, -1) {
			if m[2] != "" && m[1] == "" {
				n += len(closer(m[0]))
			}
		}
	}
	return n
}

// closer is the end of a tag that opens something.
func closer(tag string) string {
	name := strings.TrimPrefix(tag, "<")
	return "</" + name[:strings.IndexAny(name, " \n\t>")] + ">"
}

// flush ends a part, and begins the next with the tags that were open.
func (c *cutter) flush() {
	text := strings.TrimRight(c.part.String(), "\n")
	if !c.empty && strings.TrimSpace(text) != "" {
		c.parts = append(c.parts, text+closers(c.open))
	}
	c.part.Reset()
	c.size, c.empty = 0, true
	for _, tag := range c.open {
		c.part.WriteString(tag)
		c.size += units(tag)
	}
}

// closers closes tags, the last first.
func closers(open []string) string {
	var b strings.Builder
	for _, tag := range slices.Backward(open) {
		b.WriteString(closer(tag))
	}
	return b.String()
}

// units is how long s is, as Telegram counts.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// plainText is HTML without its markup.
func plainText(html string) string {
	return tagged.ReplaceAllStringFunc(html, func(s string) string {
		switch s {
		case "&lt;":
			return "<"
		case "&gt;":
			return ">"
		case "&amp;":
			return "&"
		case "&quot;":
			return `"`
		}
		return ""
	})
}

// caption is the text below a file: it is short.
func caption(t *texts.Texts) string { return t.HTML("long.file") }
