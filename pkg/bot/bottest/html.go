package bottest

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// Telegram's limits of texts, in UTF-16 units after markup was taken out.
const (
	maxText    = 4096
	maxCaption = 1024
	maxToast   = 200
)

var (
	startTag = regexp.MustCompile(`^<([a-zA-Z-]+)((?:\s+[a-z-]+(?:="[^"<>]*")?)*)\s*>`)
	endTag   = regexp.MustCompile(`^</([a-zA-Z-]*)\s*>`)
	entity   = regexp.MustCompile(`^&(?:lt|gt|amp|quot|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});`)
)

// knownTags are those of Telegram's HTML.
var knownTags = []string{
	"b", "strong", "i", "em", "s", "strike", "del", "u", "ins", "tg-spoiler", "a", "code", "pre", "blockquote", "tg-emoji",
}

// parse takes the markup out of a text as Telegram does, or says what is wrong.
func parse(text, mode string) (string, *apiError) {
	if mode == "" {
		return text, nil
	}
	if mode != "HTML" {
		return "", bad("unsupported parse_mode")
	}
	var out strings.Builder
	var open []string
	for at := 0; at < len(text); {
		rest := text[at:]
		switch rest[0] {
		case '<':
			n, err := readTag(rest, at, &open)
			if err != nil {
				return "", err
			}
			at += n
		case '&':
			m := entity.FindString(rest)
			if m == "" {
				m = "&" // as it is
			}
			out.WriteString(html.UnescapeString(m))
			at += len(m)
		default:
			out.WriteByte(rest[0])
			at++
		}
	}
	if len(open) > 0 {
		return "", bad("can't parse entities: Can't find end tag corresponding to start tag %q", open[len(open)-1])
	}
	return out.String(), nil
}

func readTag(rest string, at int, open *[]string) (int, *apiError) {
	if m := endTag.FindStringSubmatch(rest); m != nil {
		if len(*open) == 0 {
			return 0, bad("can't parse entities: Unexpected end tag at byte offset %d", at)
		}
		last := (*open)[len(*open)-1]
		if name := strings.ToLower(m[1]); name != "" && name != last {
			return 0, bad("can't parse entities: Unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", at, last, name)
		}
		*open = (*open)[:len(*open)-1]
		return len(m[0]), nil
	}
	m := startTag.FindStringSubmatch(rest)
	if m == nil {
		return 0, bad("can't parse entities: Unsupported start tag \"%s\" at byte offset %d", firstWord(rest[1:]), at)
	}
	name := strings.ToLower(m[1])
	spoiler := name == "span" && strings.Contains(m[2], `class="tg-spoiler"`)
	if !slices.Contains(knownTags, name) && !spoiler {
		return 0, bad("can't parse entities: Unsupported start tag %q at byte offset %d", name, at)
	}
	*open = append(*open, name)
	return len(m[0]), nil
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return fmt.Sprintf("%.20s", word)
}

// checkText says what is wrong with a text of at most so many units.
func checkText(text, mode string, most int) (string, *apiError) {
	plain, err := parse(text, mode)
	if err != nil {
		return "", err
	}
	plain = strings.TrimSpace(plain)
	if len(utf16.Encode([]rune(plain))) > most {
		if most == maxCaption {
			return "", bad("message caption is too long")
		}
		return "", bad("message is too long")
	}
	return plain, nil
}

// Check says what Telegram has against a text of HTML as a message; "": nothing.
func Check(text string) string {
	plain, err := checkText(text, "HTML", maxText)
	switch {
	case err != nil:
		return err.text
	case plain == "":
		return "message text is empty"
	}
	return ""
}

// Plain is HTML as Telegram shows it, without markup.
func Plain(text string) string {
	plain, _ := parse(text, "HTML")
	return plain
}
