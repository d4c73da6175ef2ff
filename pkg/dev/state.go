package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

func statePath(dir string) string { return filepath.Join(dir, "dev.json") }

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
	var s State
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return State{}, fmt.Errorf("dev: read %s: %w", statePath(dir), err)
	}
	return s, nil
}

// claim makes dir this process's own for as long as the returned file is open:
// an flock ends with its process, however that ends.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	if err := own(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, mesh.WithHint(fmt.Errorf("dev: %s is in use by another `meshctl dev up`: %w", dir, mesh.ErrConflict),
			"stop it with `meshctl dev down`, or choose another --dir")
	}
	return f, nil
}

// empty refuses a folder that holds something other than an earlier dev mesh,
// and clears the remains of one that was killed.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	var rest []string
	ours := false
	for _, e := range entries {
		switch e.Name() {
		case "lock":
		case "dev.json":
			ours = true
			fallthrough
		default:
			rest = append(rest, e.Name())
		}
	}
	if len(rest) > 0 && !ours {
		return mesh.WithHint(fmt.Errorf("dev: %s is not empty and is not a dev mesh: %w", dir, mesh.ErrConflict), "choose another --dir")
	}
	for _, name := range rest {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("dev: clear %s: %w", dir, err)
		}
	}
	return nil
}
