package repo

import (
	"context"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Diff hands every file of ours that differs between two commits to f, in the
// order of paths; before or after is nil where it does not exist. "" is a
// commit without files.
func (r *Repo) Diff(ctx context.Context, from, to ID, f func(path string, before, after []byte) error) error {
	a, err := r.treeOf(from)
	if err != nil {
		return err
	}
	b, err := r.treeOf(to)
	if err != nil {
		return err
	}
	t := &Tree{repo: r, root: b, Commit: to}
	read := func(path string, e entry) ([]byte, error) {
		if e.hash.IsZero() || e.isDir() {
			return nil, nil
		}
		return t.file(path, e)
	}
	return r.diff(ctx, a, b, func(path string, before, after entry) error {
		if !t.mine(path) || (before.hash.IsZero() || before.isDir()) && (after.hash.IsZero() || after.isDir()) {
			return nil
		}
		old, err := read(path, before)
		if err != nil {
			return err
		}
		now, err := read(path, after)
		if err != nil {
			return err
		}
		return f(path, old, now)
	})
}

func (r *Repo) treeOf(id ID) (plumbing.Hash, error) {
	if id == "" {
		return plumbing.ZeroHash, nil
	}
	c, err := r.commit(id)
	return c.tree, err
}

// diff visits every entry, folders too, that is another in b than in a. A zero
// hash is a folder without entries, and a zero entry one that is not there.
func (r *Repo) diff(ctx context.Context, a, b plumbing.Hash, visit func(path string, before, after entry) error) error {
	d := &differ{repo: r, visit: visit}
	return d.folder(ctx, a, b, "")
}

type differ struct {
	repo    *Repo
	visit   func(path string, before, after entry) error
	visited int
}

func (d *differ) folder(ctx context.Context, a, b plumbing.Hash, dir string) error {
	if a == b {
		return nil
	}
	if strings.Count(dir, "/") > d.repo.opts.Limits.Depth {
		return faultf(ReasonLimit, "compare: folders deeper than %d: %w", d.repo.opts.Limits.Depth, mesh.ErrInvalid)
	}
	olds, err := d.repo.entries(a)
	if err != nil {
		return err
	}
	news, err := d.repo.entries(b)
	if err != nil {
		return err
	}
	for len(olds) > 0 || len(news) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		var before, after entry
		switch order(olds, news) {
		case -1:
			before, olds = olds[0], olds[1:]
		case 1:
			after, news = news[0], news[1:]
		default:
			before, after, olds, news = olds[0], news[0], olds[1:], news[1:]
		}
		if before.hash == after.hash && before.mode == after.mode {
			continue
		}
		path := dir + before.name
		if before.name == "" {
			path = dir + after.name
		}
		// A folder of folders, each there ten times, is small and without end.
		if d.visited++; d.visited > 2*d.repo.opts.Limits.Files {
			return faultf(ReasonLimit, "compare: more than %d differences: %w", 2*d.repo.opts.Limits.Files, mesh.ErrInvalid)
		}
		if err := d.visit(path, before, after); err != nil {
			return err
		}
		if err := d.folder(ctx, dirHash(before), dirHash(after), path+"/"); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repo) entries(h plumbing.Hash) ([]entry, error) {
	if h.IsZero() {
		return nil, nil
	}
	return r.readTree(h)
}

// order says which list's first entry comes first, 0 when both are of one name
// and kind.
func order(olds, news []entry) int {
	switch {
	case len(olds) == 0:
		return 1
	case len(news) == 0:
		return -1
	}
	key := func(e entry) string {
		if e.isDir() {
			return e.name + "/"
		}
		return e.name
	}
	return strings.Compare(key(olds[0]), key(news[0]))
}

// dirHash is the folder that an entry is, zero when it is none.
func dirHash(e entry) plumbing.Hash {
	if e.isDir() {
		return e.hash
	}
	return plumbing.ZeroHash
}
