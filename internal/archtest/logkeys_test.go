package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestLogKeysAreDocumented holds every slog call to the vocabulary in
// docs/logging.md, and messages to one constant text that varies in keys only.
func TestLogKeysAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root(t), "docs", "logging.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, m := range regexp.MustCompile("`([a-zA-Z]+)`").FindAllStringSubmatch(string(doc), -1) {
		known[m[1]] = true
	}
	fset := token.NewFileSet()
	calls := 0
	for _, top := range []string{"cmd", "pkg", "internal"} {
		err := filepath.WalkDir(filepath.Join(root(t), top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				for _, fault := range checkLogCall(call, known) {
					t.Errorf("%s: %s", fset.Position(call.Pos()), fault)
				}
				if isLogCall(call) {
					calls++
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 20 {
		t.Errorf("only %d log calls were found; the test no longer sees them", calls)
	}
}

var logMethods = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0} // index of the first key

func isLogCall(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if _, ok := logMethods[sel.Sel.Name]; !ok {
		return false
	}
	name := ""
	switch x := sel.X.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	return strings.EqualFold(name, "log") || strings.EqualFold(name, "logger")
}

func checkLogCall(call *ast.CallExpr, known map[string]bool) []string {
	if !isLogCall(call) {
		return nil
	}
	var faults []string
	first := logMethods[call.Fun.(*ast.SelectorExpr).Sel.Name]
	if first == 1 && len(call.Args) > 0 {
		if msg, ok := literal(call.Args[0]); ok && (msg == "" || msg[0] >= 'A' && msg[0] <= 'Z') {
			faults = append(faults, "the message "+strconv.Quote(msg)+" does not begin in lower case")
		}
	}
	for i := first; i < len(call.Args); i += 2 {
		if key, ok := literal(call.Args[i]); ok && !known[key] {
			faults = append(faults, "the key "+strconv.Quote(key)+" is not in docs/logging.md")
		}
	}
	return faults
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
