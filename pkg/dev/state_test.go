package dev

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Below /tmp anybody can make the folder first. What stands in it must not choose
// which processes are stopped or which files are shown.
func TestAFolderOfSomebodyElseIsNotBelieved(t *testing.T) {
	planted := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "mesh")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := (State{PID: os.Getpid(), Parts: []Part{{Name: "mgmt", Log: "/etc/hostname"}}}).save(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	tests := map[string]func(t *testing.T, dir string) string{
		"a link to a folder": func(t *testing.T, dir string) string {
			if err := os.Symlink(dir, dir+".link"); err != nil {
				t.Fatal(err)
			}
			return dir + ".link"
		},
		"a folder that others may write to": func(t *testing.T, dir string) string {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			return dir
		},
	}
	if os.Getuid() == 0 { // nobody else can make it
		tests["a folder of another user"] = func(t *testing.T, dir string) string {
			if err := os.Chown(dir, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			return dir
		}
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			dir := change(t, planted(t))
			if _, err := Load(dir); !errors.Is(err, mesh.ErrDenied) {
				t.Errorf("Load = %v", err)
			}
			if err := Down(t.Context(), dir); !errors.Is(err, mesh.ErrDenied) {
				t.Errorf("Down = %v", err)
			}
			if f, err := claim(dir); !errors.Is(err, mesh.ErrDenied) {
				t.Errorf("claim = %v, %v", f, err)
			}
		})
	}
	if s, err := Load(planted(t)); err != nil || s.PID != os.Getpid() {
		t.Errorf("one's own: %+v, %v", s, err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("no folder: %v", err)
	}
}
