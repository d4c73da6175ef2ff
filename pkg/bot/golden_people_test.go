package bot_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/pkg/bot/texts"
)

// said are the texts of a language.
func said(lang string) *texts.Texts { return texts.Load().For(lang) }

func sameAs(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got (UPDATE=1 rewrites it):\n%s", file, got)
	}
}
