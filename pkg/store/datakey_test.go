package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/pkg/store"
)

func TestNoKeyOutlivesTheRekeyInWhatWasLeftBesideItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data.key")
	if err := store.ReplaceDataKeys(path, store.NewDataKey()); err != nil {
		t.Fatal(err)
	}
	for _, litter := range []string{"data.key.old", ".data.key.3533478578"} {
		if err := os.WriteFile(filepath.Join(dir, litter), []byte("an older key"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.ForgetDataKeys(path); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Name() != "data.key" {
		t.Errorf("left: %v", left)
	}
}
