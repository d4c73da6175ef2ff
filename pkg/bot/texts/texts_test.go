package texts

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

var parameter = regexp.MustCompile(`\{[a-z][a-zA-Z0-9]*\}`)

func parameters(m message) []string {
	found := map[string]bool{}
	for _, s := range m {
		for _, p := range parameter.FindAllString(s, -1) {
			found[p] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestEveryLanguageSaysTheSame(t *testing.T) {
	c := Load()
	first := c[Languages()[0]]
	for _, lang := range Languages()[1:] {
		texts := c[lang]
		for _, key := range first.Keys() {
			if !texts.Has(key) {
				t.Errorf("%s: %s is missing", lang, key)
			} else if got, want := parameters(texts.say[key]), parameters(first.say[key]); !slices.Equal(got, want) {
				t.Errorf("%s: %s has the parameters %v, want %v", lang, key, got, want)
			}
			if plain := len(first.say[key]) == 1; plain != (len(texts.say[key]) == 1) && texts.Has(key) {
				t.Errorf("%s: %s has plural forms in one language alone", lang, key)
			}
		}
		for _, key := range texts.Keys() {
			if !first.Has(key) {
				t.Errorf("%s: %s is in no other language", lang, key)
			}
		}
	}
}

func TestPluralsHaveTheFormsOfTheirLanguage(t *testing.T) {
	for lang, texts := range Load() {
		for key, m := range texts.say {
			if _, single := m[other]; single && len(m) == 1 {
				continue
			}
			got, want := slices.Sorted(maps.Keys(m)), slices.Sorted(slices.Values(pluralForms(lang)))
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s has the forms %v, want %v", lang, key, got, want)
			}
			if !slices.Contains(parameters(m), "{n}") {
				t.Errorf("%s: %s has plural forms, but no {n}", lang, key)
			}
		}
	}
}

var tag = regexp.MustCompile(`</?([a-z-]+)[^>]*>`)

// TestTagsAreClosed: Telegram refuses a message whose tags are not, or that it
// does not know.
func TestTagsAreClosed(t *testing.T) {
	known := []string{"b", "i", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler"}
	for lang, texts := range Load() {
		for key, m := range texts.say {
			for _, s := range m {
				var open []string
				for _, f := range tag.FindAllStringSubmatch(s, -1) {
					if !slices.Contains(known, f[1]) {
						t.Errorf("%s: %s has the tag %s", lang, key, f[0])
					}
					if !strings.HasPrefix(f[0], "</") {
						open = append(open, f[1])
					} else if len(open) == 0 || open[len(open)-1] != f[1] {
						t.Errorf("%s: %s closes %s out of order", lang, key, f[1])
					} else {
						open = open[:len(open)-1]
					}
				}
				if len(open) > 0 {
					t.Errorf("%s: %s leaves %v open", lang, key, open)
				}
				if rest := tag.ReplaceAllString(s, ""); strings.ContainsAny(rest, "<>") {
					t.Errorf("%s: %s has a < or > that is no tag", lang, key)
				}
			}
		}
	}
}

func TestPlurals(t *testing.T) {
	c := Load()
	for n, want := range map[int]string{
		0: "0 дней", 1: "1 день", 2: "2 дня", 4: "4 дня", 5: "5 дней", 11: "11 дней", 12: "12 дней", 14: "14 дней",
		21: "21 день", 22: "22 дня", 25: "25 дней", 101: "101 день", 111: "111 дней", 112: "112 дней",
	} {
		if got := c["ru"].Plain("unit.days", "n", n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 days", 1: "1 day", 2: "2 days", 21: "21 days"} {
		if got := c["en"].Plain("unit.days", "n", n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestAmounts(t *testing.T) {
	c := Load()
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1 kB", 1500: "1.5 kB", 999_499: "999 kB", 999_500: "1 MB",
		12_340_000: "12.3 MB", 2_000_000_000: "2 GB", 1 << 62: "4612 PB",
	} {
		if got := c["en"].Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got, want := c["ru"].Bytes(1500), "1,5 кБ"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	at := time.Date(2026, 11, 30, 15, 4, 0, 0, time.FixedZone("", 3600))
	if got, want := c["ru"].Moment(at), "30.11.2026, 14:04 UTC"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := c["en"].Day(at), "30 Nov 2026"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for d, want := range map[time.Duration]string{
		30 * time.Second: "just now", 90 * time.Second: "1 minute ago", 47 * time.Hour: "47 hours ago", 72 * time.Hour: "3 days ago",
	} {
		if got := c["en"].Ago(at.Add(-d), at); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestBars(t *testing.T) {
	for _, tt := range []struct {
		used, all int64
		want      string
	}{
		{0, 100, "▱▱▱▱▱▱▱▱▱▱"}, {1, 1000, "▰▱▱▱▱▱▱▱▱▱"}, {50, 100, "▰▰▰▰▰▱▱▱▱▱"}, {300, 100, "▰▰▰▰▰▰▰▰▰▰"}, {5, 0, ""},
	} {
		if got := Bar(tt.used, tt.all); got != tt.want {
			t.Errorf("%d of %d: %s, want %s", tt.used, tt.all, got, tt.want)
		}
	}
}

func TestWhatPeopleWriteIsEscaped(t *testing.T) {
	texts, err := read(fstest.MapFS{"en/x.yaml": {Data: []byte("hello: 'Hello <b>{name}</b> {n}'")}}, "en")
	if err != nil {
		t.Fatal(err)
	}
	name := "<b>_*[x](tg://user?id=1)\"&\u202e\u2067abc\x00\r{n}\xff"
	if got, want := texts.HTML("hello", "name", name, "n", 3),
		"Hello <b>&lt;b&gt;_*[x](tg://user?id=1)&quot;&amp;abc  {n}�</b> 3"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := texts.HTML("hello", "name", Markup("<i>a</i>"), "n", 1), "Hello <b><i>a</i></b> 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := texts.HTML("no.such"), "no.such"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLanguagesAreFoundByTag(t *testing.T) {
	c := Load()
	for _, tt := range []struct {
		tags []string
		want string
	}{
		{[]string{"ru"}, "ru"}, {[]string{"RU-ru"}, "ru"}, {[]string{"", "ru"}, "ru"}, {[]string{"en", "ru"}, "en"},
		{[]string{"pt-br"}, "en"}, {nil, "en"}, {[]string{"xx", "ru"}, "ru"},
	} {
		if got := c.For(tt.tags...).Language(); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.tags, got, tt.want)
		}
	}
}

func TestCataloguesThatAreWrongAreRefused(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"a key that is there twice": {"en/a.yaml": {Data: []byte("x: {y: a}")}, "en/b.yaml": {Data: []byte("x: {y: b}")}},
		"a number":                  {"en/a.yaml": {Data: []byte("x: 1")}},
		"no mapping":                {"en/a.yaml": {Data: []byte("- x")}},
	} {
		if _, err := read(files, "en"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
