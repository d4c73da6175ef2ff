package bot

import (
	"context"
	"strings"
	"unicode"
)

// verb is what may follow a command: "/core drain NAME". Words are those after it.
type verb func(ctx context.Context, s *Session, words []string) error

// verbs is a command about one kind of thing. Its first word is a verb when others
// follow it; otherwise all of them are the name of what to show. Without any word
// it says how it is used.
func verbs(kind string, show func(context.Context, *Session, string) error, known map[string]verb) func(context.Context, *Session, string) error {
	return func(ctx context.Context, s *Session, rest string) error {
		words := splitWords(rest)
		if len(words) == 0 {
			return usage(ctx, s, kind)
		}
		if do, ok := known[words[0]]; ok && len(words) > 1 {
			return do(ctx, s, words[1:])
		}
		return show(ctx, s, strings.Join(words, " "))
	}
}

// usage says what can follow a command.
func usage(ctx context.Context, s *Session, kind string) error {
	text := s.T.HTML("op.usage."+kind) + "\n\n" + s.T.HTML("op.usage.names")
	_, err := s.Say(ctx, Screen{Text: text})
	return err
}

// one is a verb about one thing, whose name all words after it are.
func one(do func(context.Context, *Session, string) error) verb {
	return func(ctx context.Context, s *Session, words []string) error {
		return do(ctx, s, strings.Join(words, " "))
	}
}

// needs is a verb with at least so many words.
func needs(n int, kind string, do verb) verb {
	return func(ctx context.Context, s *Session, words []string) error {
		if len(words) < n {
			return usage(ctx, s, kind)
		}
		return do(ctx, s, words)
	}
}

// splitWords takes a line apart at spaces. What stands in quotes of any kind that
// keyboards make is one word; a quote without its end is a letter.
func splitWords(line string) []string {
	var out []string
	rest := []rune(strings.TrimSpace(line))
	for len(rest) > 0 {
		if end, ok := closing(rest); ok {
			out = append(out, string(rest[1:end]))
			rest = rest[end+1:]
		} else {
			n := 0
			for n < len(rest) && !unicode.IsSpace(rest[n]) {
				n++
			}
			out, rest = append(out, string(rest[:n])), rest[n:]
		}
		for len(rest) > 0 && unicode.IsSpace(rest[0]) {
			rest = rest[1:]
		}
	}
	return out
}

// closing is where the quote ends with which the line begins. Words end after it.
func closing(line []rune) (int, bool) {
	ends, ok := map[rune]string{'"': `"`, '\'': "'", '“': "”“", '„': "“”", '«': "»", '‘': "’"}[line[0]]
	if !ok {
		return 0, false
	}
	for i := 1; i < len(line); i++ {
		if strings.ContainsRune(ends, line[i]) && (i+1 == len(line) || unicode.IsSpace(line[i+1])) {
			return i, i > 1
		}
	}
	return 0, false
}
