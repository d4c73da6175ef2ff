package dev

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// Below /tmp anybody can make the folder first. What stands in it must not choose
// which processes are stopped or which files are shown.
func TestAFolderOfSomebodyElseIsNotBelieved(t *testing.T) {
	planted := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "mesh")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := (State{PID: os.Getpid(), Started: time.Now(), Parts: []Part{{Name: "mgmt", Log: "/etc/hostname"}}}).save(dir); err != nil {
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

// A folder with something of somebody in it is refused as it is, also when a
// file in it is called as ours.
func TestClaimLeavesFoldersOfOthersAlone(t *testing.T) {
	for name, file := range map[string]string{"any file": "letter.txt", "a dev.json of another program": stateFile} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, file), []byte(`{"compilerOptions":{}}`), 0o644); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := claim(dir); !errors.Is(err, mesh.ErrConflict) || mesh.Hint(err) == "" {
				t.Errorf("got %v", err)
			}
			after, err := os.Stat(dir)
			if err != nil || after.Mode() != before.Mode() {
				t.Errorf("mode %v, %v; was %v", after.Mode(), err, before.Mode())
			}
			if got := names(t, dir); !slices.Equal(got, []string{file}) {
				t.Errorf("the folder holds %v", got)
			}
		})
	}
}

// The children of a `dev up` that was killed go on for a moment.
func TestClaimWaitsForOrphans(t *testing.T) {
	dir := t.TempDir()
	if err := (State{PID: 1, Started: time.Now()}).save(dir); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/sh", "-c", "read line", "--config", dir+"/config.yaml")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	go func() {
		lock, err := claim(dir)
		if err == nil {
			err = lock.Close()
		}
		claimed <- err
	}()
	for !slices.Contains(names(t, dir), lockFile) { // it has come as far as its lock
		runtime.Gosched()
	}
	select {
	case err := <-claimed:
		t.Errorf("claimed (%v) while a child runs", err)
	default:
	}
	if _, err := Load(dir); err != nil {
		t.Errorf("cleared while a child runs: %v", err)
	}
	in.Close()
	child.Wait() // its code says nothing
	if err := <-claimed; err != nil {
		t.Error(err)
	}
}

// An empty folder is made private, and what an earlier dev mesh left is cleared.
func TestClaimTakesAnEmptyFolderAndItsOwnRemains(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := (State{PID: 1, Started: time.Now()}).save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "mgmt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(dir); !errors.Is(err, errInUse) {
		t.Errorf("while it runs: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err = claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{lockFile}) {
		t.Errorf("the folder holds %v", got)
	}
	if err := remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	lock.Close()
}
