package texts

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed en/*.yaml ru/*.yaml
var files embed.FS

// Languages of the bot, by their ISO 639 codes; the first is for everybody whose
// own there is not.
func Languages() []string { return []string{"en", "ru"} }

// Catalogue is all that the bot can say. It does not change.
type Catalogue map[string]*Texts // by language

// Load reads the catalogues in the binary. That they can be read is tested.
func Load() Catalogue {
	c := make(Catalogue)
	for _, lang := range Languages() {
		t, err := read(files, lang)
		if err != nil {
			panic(err)
		}
		c[lang] = t
	}
	return c
}

// For returns the texts in the first of these languages that there is. A tag is
// what Telegram sends, or a user chose: "ru", "pt-br", or nothing.
func (c Catalogue) For(tags ...string) *Texts {
	for _, tag := range tags {
		lang, _, _ := strings.Cut(strings.ToLower(tag), "-")
		if t, ok := c[lang]; ok {
			return t
		}
	}
	return c[Languages()[0]]
}

func read(from fs.FS, lang string) (*Texts, error) {
	t := &Texts{lang: lang, say: make(map[string]message)}
	names, err := fs.Glob(from, lang+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("texts: list %s: %w", lang, err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, fmt.Errorf("texts: read %s: %w", name, err)
		}
		var root map[string]any
		if err := yaml.Unmarshal(data, &root); err != nil {
			return nil, fmt.Errorf("texts: parse %s: %w", name, err)
		}
		if err := t.add("", root); err != nil {
			return nil, fmt.Errorf("texts: parse %s: %w", path.Base(name), err)
		}
	}
	return t, nil
}

func (t *Texts) add(prefix string, node map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(node)) {
		key := prefix + name
		if _, ok := t.say[key]; ok {
			return fmt.Errorf("%s is there twice", key)
		}
		switch v := node[name].(type) {
		case string:
			t.say[key] = message{other: v}
		case map[string]any:
			if m, ok := forms(v); ok {
				t.say[key] = m
			} else if err := t.add(key+".", v); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is no text", key)
		}
	}
	return nil
}

// forms reads plural forms, when that is what node has.
func forms(node map[string]any) (message, bool) {
	m := make(message, len(node))
	for name, v := range node {
		text, ok := v.(string)
		if !ok || !slices.Contains([]form{one, few, many, other}, form(name)) {
			return nil, false
		}
		m[form(name)] = text
	}
	return m, len(m) > 0
}
