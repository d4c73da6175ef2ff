package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Inspect says which parts of the dev mesh in dir run and are ready.
func Inspect(ctx context.Context, dir string) (State, error) {
	s, err := Load(dir)
	if err != nil {
		return State{}, err
	}
	for i, p := range s.Parts {
		switch {
		case !alive(p.PID):
			s.Parts[i].State = "ended"
		case answers(ctx, "http://"+p.Health+"/readyz"):
			s.Parts[i].State = "ready"
		default:
			s.Parts[i].State = "running"
		}
	}
	return s, nil
}

// alive says whether a process runs; one that has ended and that nobody has
// waited for, as in a container without an init, does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // pid (name) state …
	return !bytes.HasPrefix(rest, []byte("Z"))
}

// Down stops the dev mesh in dir and waits until its folder is gone.
func Down(ctx context.Context, dir string) error {
	s, err := Load(dir)
	if err != nil {
		return err
	}
	lock, err := claim(dir)
	switch {
	case err == nil: // nobody holds it: `dev up` was killed, and its children with it
		defer lock.Close()
		return remove(dir)
	case !errors.Is(err, errInUse): // then the process may be anybody's
		return err
	}
	if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("dev: stop process %d: %w", s.PID, err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(statePath(dir)); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("dev: process %d has not ended: %w", s.PID, mesh.ErrUnavailable)
		case <-tick.C:
		}
	}
}

// Logs writes the log of one part, or of all when name is "", each line headed
// by the part's name.
func Logs(w io.Writer, dir, name string) error {
	s, err := Load(dir)
	if err != nil {
		return err
	}
	found := false
	for _, p := range s.Parts {
		if name != "" && p.Name != name {
			continue
		}
		found = true
		if err := copyLog(w, p); err != nil {
			return err
		}
	}
	if !found {
		return mesh.WithHint(fmt.Errorf("dev: no part %q: %w", name, mesh.ErrNotFound), "see `meshctl dev status`")
	}
	return nil
}

// PartNames lists the parts of the dev mesh in dir; none when there is no mesh.
func PartNames(dir string) []string {
	s, err := Load(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range s.Parts {
		names = append(names, p.Name)
	}
	return names
}
