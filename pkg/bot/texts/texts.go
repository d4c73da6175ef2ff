package texts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Texts are what the bot says in one language.
type Texts struct {
	lang string
	say  map[string]message
}

// Markup is a parameter that is HTML already, and safe.
type Markup string

// Language is the code of the language.
func (t *Texts) Language() string { return t.lang }

// Has says whether there is a text for the key.
func (t *Texts) Has(key string) bool { _, ok := t.say[key]; return ok }

// Keys of all texts, in order.
func (t *Texts) Keys() []string { return slices.Sorted(maps.Keys(t.say)) }

// HTML says it in Telegram's HTML. Parameters are names and values in turn; what
// is not Markup is escaped. A key that is not there says itself: a test finds them.
func (t *Texts) HTML(key string, params ...any) string {
	return t.fill(key, params, func(v any) string {
		if m, ok := v.(Markup); ok {
			return string(m)
		}
		return Escape(fmt.Sprint(v))
	})
}

// Plain says it where there is no markup. Parameters are as for HTML.
func (t *Texts) Plain(key string, params ...any) string {
	return t.fill(key, params, func(v any) string { return Clean(fmt.Sprint(v)) })
}

func (t *Texts) fill(key string, params []any, show func(any) string) string {
	m, ok := t.say[key]
	if !ok {
		return key
	}
	var replace []string
	var n any
	for i := 0; i+1 < len(params); i += 2 {
		name := fmt.Sprint(params[i])
		if name == "n" {
			n = params[i+1]
		}
		replace = append(replace, "{"+name+"}", show(params[i+1]))
	}
	return strings.NewReplacer(replace...).Replace(m.of(t.lang, n))
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// Escape makes a text of anybody's safe to be shown in HTML.
func Escape(s string) string { return escapes.Replace(Clean(s)) }

// Clean takes from a text of anybody's what changes how the text around it looks:
// control characters, and those that turn the direction of writing.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0:
			return ' '
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c,
			r == 0x2028, r == 0x2029, r == 0xfeff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// Whole is a text in all its forms, with its parameters in braces: for tests.
func (t *Texts) Whole(key string) string {
	return strings.Join(slices.Sorted(maps.Values(t.say[key])), "\n")
}
