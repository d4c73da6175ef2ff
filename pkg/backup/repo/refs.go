package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const headRef = "refs/heads/main"

func remoteRef(name string) string { return "refs/remotes/" + name }

// ref returns what a reference points to, "" when it is not there or is not one.
func (r *Repo) ref(name string) ID {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return ""
	}
	id, ok := parseID(strings.TrimSpace(string(b)))
	if !ok {
		return ""
	}
	return id
}

// parseID takes a full hash.
func parseID(s string) (ID, bool) {
	if len(s) != 40 || strings.Trim(s, "0123456789abcdef") != "" || strings.Trim(s, "0") == "" {
		return "", false
	}
	return ID(s), true
}

// setRef points a reference to a commit, in one step: no reader and no crash
// sees half of it. "" removes it.
func (r *Repo) setRef(name string, id ID) error {
	path := filepath.Join(r.dir, name)
	if id == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("repo: set %s: %w", name, err)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("repo: set %s: %w", name, err)
	}
	if err := os.WriteFile(path+".lock", []byte(string(id)+"\n"), 0o600); err != nil {
		return fmt.Errorf("repo: set %s: %w", name, err)
	}
	r.step("ref written")
	if err := os.Rename(path+".lock", path); err != nil {
		return fmt.Errorf("repo: set %s: %w", name, err)
	}
	return nil
}

// refs are all references below a prefix such as "refs/".
func (r *Repo) refs(prefix string) map[string]ID {
	out := make(map[string]ID)
	_ = filepath.WalkDir(filepath.Join(r.dir, filepath.FromSlash(prefix)), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // what cannot be read is not there
		}
		rel, err := filepath.Rel(r.dir, path)
		if err != nil {
			return err
		}
		if id := r.ref(filepath.ToSlash(rel)); id != "" {
			out[filepath.ToSlash(rel)] = id
		}
		return nil
	})
	return out
}
