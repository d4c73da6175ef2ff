package repo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// recover makes what a killed process left usable again, or says that the
// clone is damaged.
func (r *Repo) recover(ctx context.Context) error {
	for _, name := range []string{"HEAD", "config", "objects/pack", "refs/heads"} {
		if st, err := os.Stat(filepath.Join(r.dir, name)); err != nil || st.Mode().IsRegular() && st.Size() == 0 {
			return damaged(errors.Join(err, errors.New("it is not a repository")), "open %s", r.dir)
		}
	}
	if err := r.sweep(); err != nil {
		return fmt.Errorf("repo: open: remove leftovers: %w", err)
	}
	if err := r.checkPacks(); err != nil {
		return err
	}
	r.load()
	return r.checkHead(ctx)
}

// sweep removes what was not finished: locks, temporary files, halves of packs,
// and references that point nowhere. Nobody else has the folder open.
func (r *Repo) sweep() error {
	if err := os.RemoveAll(filepath.Join(r.dir, "tmp")); err != nil {
		return err
	}
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := d.Name()
		bad := strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_")
		if other, ok := strings.CutSuffix(path, ".idx"); ok {
			bad = bad || !exists(other+".pack")
		}
		if other, ok := strings.CutSuffix(path, ".pack"); ok {
			bad = bad || !exists(other+".idx")
		}
		rel, _ := filepath.Rel(r.dir, path)
		if strings.HasPrefix(filepath.ToSlash(rel), "refs/") && r.ref(filepath.ToSlash(rel)) == "" {
			bad = true
		}
		if !bad {
			return nil
		}
		return os.Remove(path)
	})
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkPacks finds packs that were cut short: the last 20 bytes of one are its name.
func (r *Repo) checkPacks() error {
	packs, err := filepath.Glob(filepath.Join(r.dir, "objects/pack/pack-*.pack"))
	if err != nil {
		return err
	}
	for _, path := range packs {
		want := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "pack-"), ".pack")
		got, err := trailer(path)
		if err != nil {
			return damaged(err, "open %s", path)
		}
		if got != want {
			return damaged(errors.New("the end is missing"), "open %s", path)
		}
	}
	return nil
}

func trailer(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if st.Size() < 32 {
		return "", errors.New("it is too short")
	}
	b := make([]byte, 20)
	_, err = f.ReadAt(b, st.Size()-20)
	return hex.EncodeToString(b), err
}

// checkHead sees to it that the newest commit is whole: its trees are read, its
// files looked for, and its history followed a little.
func (r *Repo) checkHead(ctx context.Context) error {
	head := r.Head()
	if head == "" {
		return nil
	}
	c, err := r.commit(head)
	if err != nil {
		return err
	}
	for range 100 {
		if len(c.parents) == 0 || r.shallow[c.id] {
			break
		}
		if c, err = r.commit(c.parents[0]); err != nil {
			return err
		}
	}
	whole, err := r.contents()
	if err != nil {
		return err
	}
	t, err := r.Tree(head)
	if err != nil {
		return err
	}
	return t.walk(ctx, "", func(path string, e entry) error {
		if !whole(e.hash) {
			return damaged(errors.New("the file is not in the clone"), "check %s: %s", head.Short(), quote(path))
		}
		return nil
	})
}

// contents returns a function that says whether an object is here, and not
// empty. It reads the folders and indexes once, which for ten thousand objects
// is ten times faster than to look for each.
func (r *Repo) contents() (func(plumbing.Hash) bool, error) {
	loose, err := r.looseObjects()
	if err != nil {
		return nil, err
	}
	packs, err := filepath.Glob(filepath.Join(r.dir, "objects/pack/pack-*.pack"))
	if err != nil {
		return nil, err
	}
	indexes := make([]*idxfile.MemoryIndex, 0, len(packs))
	for _, p := range packs {
		idx, err := openIndex(p)
		if err != nil {
			return nil, err
		}
		indexes = append(indexes, idx)
	}
	return func(h plumbing.Hash) bool {
		if loose[h] {
			st, err := os.Stat(r.loose(h))
			return err == nil && st.Size() > 0
		}
		return slices.ContainsFunc(indexes, func(idx *idxfile.MemoryIndex) bool {
			ok, err := idx.Contains(h)
			return ok && err == nil
		})
	}, nil
}

// loose is the path of an object that is in a file of its own.
func (r *Repo) loose(h plumbing.Hash) string {
	s := h.String()
	return filepath.Join(r.dir, "objects", s[:2], s[2:])
}

// MoveAside moves a damaged clone away, and removes one that was moved before:
// one is kept to be looked at. It returns where it is now.
func MoveAside(dir string, now time.Time) (string, error) {
	old, err := filepath.Glob(dir + ".damaged-*")
	if err != nil {
		return "", fmt.Errorf("repo: set aside: %w", err)
	}
	for _, o := range old {
		if err := os.RemoveAll(o); err != nil {
			return "", fmt.Errorf("repo: set aside: %w", err)
		}
	}
	to := dir + ".damaged-" + now.UTC().Format("20060102T150405")
	if err := os.Rename(dir, to); err != nil {
		return "", fmt.Errorf("repo: set aside: %w", err)
	}
	return to, nil
}
