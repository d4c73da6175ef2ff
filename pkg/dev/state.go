package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// State is what a running dev mesh leaves in its folder for `dev status`,
// `dev logs` and `dev down`.
type State struct {
	PID     int       `json:"pid"` // of `dev up`
	Started time.Time `json:"started"`
	Socket  string    `json:"socket"`
	Parts   []Part    `json:"parts"`
}

// Part is one child.
type Part struct {
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	Log    string `json:"log"`
	Health string `json:"health"`
	State  string `json:"state,omitzero"` // ready, running or ended; filled by Inspect
}

// DefaultDir is where the one dev mesh of this user lives. It is short, since
// the path of a unix socket has 107 bytes.
func DefaultDir() string {
	base := os.Getenv("XDG_RUNTIME_DIR")
	if base == "" {
		base = os.TempDir()
	}
	return filepath.Join(base, fmt.Sprintf("meshctl-dev-%d", os.Getuid()))
}

// The two files by which a folder is known as a dev mesh's. They go last.
const (
	stateFile = "dev.json"
	lockFile  = "lock"
)

// errInUse is a dev mesh whose `dev up` runs.
var errInUse = fmt.Errorf("in use by another `meshctl dev up`: %w", mesh.ErrConflict)

func statePath(dir string) string { return filepath.Join(dir, stateFile) }

func (s State) save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("dev: save state: %w", err)
	}
	if err := os.WriteFile(statePath(dir)+".new", data, 0o600); err != nil {
		return fmt.Errorf("dev: save state: %w", err)
	}
	return os.Rename(statePath(dir)+".new", statePath(dir))
}

// own refuses a folder that somebody else could have put there, as anybody can
// below /tmp: its dev.json says which processes to stop.
func own(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || st.Uid != uint32(os.Getuid()) || info.Mode().Perm()&0o022 != 0 {
		return mesh.WithHint(fmt.Errorf("dev: %s is not a folder that belongs to this user alone (%v): %w", dir, info.Mode(), mesh.ErrDenied),
			"remove it, or choose another --dir")
	}
	return nil
}

// Load reads the state of the dev mesh in dir.
func Load(dir string) (State, error) {
	if err := own(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return State{}, err
	}
	data, err := os.ReadFile(statePath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, mesh.WithHint(fmt.Errorf("dev: no dev mesh in %s: %w", dir, mesh.ErrNotFound), "start one with `meshctl dev up`")
	}
	if err != nil {
		return State{}, fmt.Errorf("dev: %w", err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil || s.Started.IsZero() {
		return State{}, fmt.Errorf("dev: %s is not of a dev mesh, or damaged: %w", statePath(dir), mesh.ErrConflict)
	}
	return s, nil
}

// claim makes dir this process's own for as long as the returned file is open:
// an flock ends with its process, however that ends. What an earlier dev mesh
// left in it is cleared; a folder with anything else in it is not touched.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	if err := own(dir); err != nil {
		return nil, err
	}
	if err := vacant(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, mesh.WithHint(fmt.Errorf("dev: %s: %w", dir, errInUse), "stop it with `meshctl dev down`, or choose another --dir")
	}
	endOrphans(dir)
	if err := empty(dir); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// vacant refuses a folder that is neither empty nor what a dev mesh left.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lockFile })
	if len(entries) == 0 {
		return nil
	}
	if _, err := Load(dir); err != nil {
		return mesh.WithHint(fmt.Errorf("dev: %s is not empty and is not a dev mesh: %w", dir, mesh.ErrConflict), "choose another --dir")
	}
	return nil
}

// empty clears dir but for its lock; the state goes last, so that what is left
// of an interrupted clearing is still known as ours.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name != lockFile && name != stateFile {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("dev: clear %s: %w", dir, err)
			}
		}
	}
	if err := os.Remove(statePath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("dev: clear %s: %w", dir, err)
	}
	return nil
}

// remove deletes dir with everything in it.
func remove(dir string) error { return errors.Join(empty(dir), os.RemoveAll(dir)) }
