package bot

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/bot/texts"
)

func TestEveryAlertHasATitle(t *testing.T) {
	var rules []string
	for _, r := range alert.Rules() {
		rules = append(rules, r.Name)
	}
	for lang, said := range texts.Load() {
		for _, r := range rules {
			if !said.Has("alert.title." + r) {
				t.Errorf("%s: the rule %s has no title", lang, r)
			}
		}
		for _, key := range said.Keys() {
			if r, ok := strings.CutPrefix(key, "alert.title."); ok && !slices.Contains(rules, r) {
				t.Errorf("%s: there is no rule for the title %s", lang, key)
			}
		}
	}
}

// code is the code of this package, as the tests below read it.
type code struct {
	t        *testing.T
	said     *texts.Texts
	used     map[string]bool // keys
	prefixes []string        // of keys that are put together
}

// TestWhatTheCodeSays finds texts that stand in code, keys that have no text, texts
// whose parameters are not given, and texts that nobody says.
func TestWhatTheCodeSays(t *testing.T) {
	c := &code{t: t, said: texts.Load().For("en"), used: map[string]bool{}}
	set := token.NewFileSet()
	for _, pattern := range []string{"*.go", "texts/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				c.look(n, func() string { return set.Position(n.Pos()).String() })
				return true
			})
		}
	}
	for _, key := range c.said.Keys() {
		if !c.used[key] && !slices.ContainsFunc(c.prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			t.Errorf("nobody says %s", key)
		}
	}
}

func (c *code) look(n ast.Node, at func() string) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING && strings.ContainsFunc(n.Value, func(r rune) bool { return unicode.Is(unicode.Cyrillic, r) }) {
			c.t.Errorf("%s: a text stands in code: %s", at(), n.Value)
		}
		if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
			c.key(s)
		}
	case *ast.KeyValueExpr:
		name, _ := n.Key.(*ast.Ident)
		if lit, ok := n.Value.(*ast.BasicLit); ok && name != nil && (name.Name == "Text" || name.Name == "Label") {
			c.t.Errorf("%s: a text stands in code: %s", at(), lit.Value)
		}
	case *ast.CallExpr:
		c.call(n, at)
	}
}

// key takes note of a literal that may be a key, or how one begins.
func (c *code) key(s string) {
	for _, s := range []string{s, "button." + s, "op.button." + s, "op.done." + s, "op.mark." + s, "op.state." + s, "device.add." + s, "guests.button." + s, "op.usage." + s, "fail." + s, "press." + s, "unit." + s} {
		if c.said.Has(s) {
			c.used[s] = true
		}
	}
	if len(s) > 2 && (strings.HasSuffix(s, ".") || strings.HasSuffix(s, "-") && strings.Contains(s, ".")) {
		c.prefixes = append(c.prefixes, s)
	}
}

var parameters = regexp.MustCompile(`\{([a-z][a-zA-Z0-9]*)\}`)

// call checks what is said with a key that stands there.
func (c *code) call(n *ast.CallExpr, at func() string) {
	f, ok := n.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "HTML" && f.Sel.Name != "Plain" || len(n.Args) == 0 || n.Ellipsis.IsValid() {
		return
	}
	key, ok := literal(n.Args[0])
	if !ok {
		return
	}
	if !c.said.Has(key) {
		c.t.Errorf("%s: there is no text %s", at(), key)
		return
	}
	var given []string
	for i := 1; i < len(n.Args); i += 2 {
		name, ok := literal(n.Args[i])
		if !ok {
			return
		}
		given = append(given, name)
	}
	wanted := map[string]bool{}
	for _, m := range parameters.FindAllStringSubmatch(c.said.Whole(key), -1) {
		wanted[m[1]] = true
		if !slices.Contains(given, m[1]) {
			c.t.Errorf("%s: %s has {%s}, which is not given", at(), key, m[1])
		}
	}
	for _, name := range given {
		if !wanted[name] && name != "n" {
			c.t.Errorf("%s: %s has no {%s}", at(), key, name)
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
