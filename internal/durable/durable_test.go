package durable_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func put(t *testing.T, path string, v int) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(path, b); err != nil {
		t.Fatal(err)
	}
}

func TestReadSurvivesDamage(t *testing.T) {
	zeros := func(p string) error { return os.WriteFile(p, make([]byte, 8), 0o600) }
	tests := []struct {
		name   string
		damage func(path string) error
		want   int
		older  bool
		fails  bool
	}{
		{"an intact file gives the newest version", func(string) error { return nil }, 2, false, false},
		{"a zero-filled file gives the version before", zeros, 1, true, false},
		{"a file cut short gives the version before", func(p string) error { return os.Truncate(p, 0) }, 1, true, false},
		{"a crash between link and rename leaves the version before", func(p string) error { return os.Remove(p) }, 1, true, false},
		{"both damaged is an error that names the file", func(p string) error {
			return errors.Join(zeros(p), zeros(p+".old"))
		}, 0, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			put(t, path, 1)
			put(t, path, 2)
			// Not through the link: damage to the new file leaves the old one.
			if err := tt.damage(path); err != nil {
				t.Fatal(err)
			}
			var got int
			older, err := durable.Read(path, func(b []byte) error { return json.Unmarshal(b, &got) })
			if (err != nil) != tt.fails {
				t.Fatalf("Read: %v", err)
			}
			if tt.fails {
				if !strings.Contains(err.Error(), path) {
					t.Errorf("error %q does not name the file", err)
				}
				return
			}
			if got != tt.want || older != tt.older {
				t.Errorf("got %d older=%v, want %d older=%v", got, older, tt.want, tt.older)
			}
		})
	}
}

func TestAbsentIsNotFound(t *testing.T) {
	_, err := durable.Read(filepath.Join(t.TempDir(), "none"), func([]byte) error { return nil })
	if !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestFilesArePrivateAndNoLitterRemains(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, 1)
	put(t, path, 2)
	put(t, path, 3)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v: want the file and its previous version", entries, err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if err := durable.Write(filepath.Join(dir, "absent", "f"), nil); err == nil {
		t.Error("a missing folder must be an error")
	}
}
