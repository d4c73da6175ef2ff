package bot

import (
	"os"
	"path/filepath"
	"testing"
)

// SameAs compares with a file of testdata, which UPDATE=1 writes anew.
func SameAs(t *testing.T, file, got string) {
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
