package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestThreatModelNamesTestsThatExist keeps the claims of docs/threat-model.md
// tied to what shows them.
func TestThreatModelNamesTestsThatExist(t *testing.T) {
	claim := regexp.MustCompile("`([a-z0-9/]+)`: ((?:(?:Test|Fuzz)\\w+(?:, )?)+)")
	named := 0
	for _, m := range claim.FindAllStringSubmatch(page(t, "docs/threat-model.md"), -1) {
		tests := testsOf(t, m[1])
		for name := range strings.SplitSeq(m[2], ", ") {
			named++
			if !slices.Contains(tests, name) {
				t.Errorf("%s has no test %s", m[1], name)
			}
		}
	}
	all := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(page(t, "docs/threat-model.md"), -1)
	if named != len(all) {
		t.Errorf("%d tests are named, and %d of them with a package", len(all), named)
	}
}

// testsOf are the names of the tests in a folder.
func testsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests (%v)", dir, err)
	}
	var out []string
	head := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range head.FindAllSubmatch(text, -1) {
			out = append(out, string(m[1]))
		}
	}
	return out
}

// TestReadmesHaveTheSameCommands keeps the translation in step: what one types
// is the same in every language, but for comments.
func TestReadmesHaveTheSameCommands(t *testing.T) {
	want, got := commands(page(t, "README.md")), commands(page(t, "README.ru.md"))
	for i := range max(len(want), len(got)) {
		var a, b string
		if i < len(want) {
			a = want[i]
		}
		if i < len(got) {
			b = got[i]
		}
		if a != b {
			t.Fatalf("line %d of the commands: README.md has %q, README.ru.md has %q", i+1, a, b)
		}
	}
	if len(want) < 20 {
		t.Errorf("only %d lines of commands were found", len(want))
	}
}

// commands are the lines of indented blocks, without comments.
func commands(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		code, ok := strings.CutPrefix(line, "    ")
		if !ok {
			continue
		}
		code, _, _ = strings.Cut(code, " #")
		out = append(out, strings.TrimSpace(code))
	}
	return out
}

// TestLinksLead checks the links between the documents.
func TestLinksLead(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages (%v)", err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, p := range append(pages, filepath.Join(root(t), "README.md"), filepath.Join(root(t), "README.ru.md"), filepath.Join(root(t), "CONTRIBUTING.md")) {
		if filepath.Base(p) == "third-party-licenses.md" {
			continue // texts of others
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(p), string(m[1]))); err != nil {
				t.Errorf("%s: a link leads nowhere: %v", filepath.Base(p), err)
			}
		}
	}
}
