package repo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Draft is a commit being made: the tree of another, and changes to it. What
// was put lies in the clone already and is found by no one until Commit. Close
// lets go of one that was not committed.
type Draft struct {
	repo *Repo
	base plumbing.Hash // the tree begun with
	root *folder
	bulk *bulk
}

// folder is one that is being changed, or was looked at.
type folder struct {
	entries map[string]*item
	dirty   bool
}

// item is an entry; dir is set once the folder was read.
type item struct {
	entry
	dir *folder
}

// Begin starts from the tree of a commit, or from nothing with "".
func (r *Repo) Begin(base ID) (*Draft, error) {
	d := &Draft{repo: r, root: &folder{entries: map[string]*item{}}, bulk: &bulk{repo: r}}
	if base == "" {
		return d, nil
	}
	c, err := r.commit(base)
	if err != nil {
		return nil, err
	}
	d.base = c.tree
	d.root, err = r.folder(c.tree)
	return d, err
}

func (r *Repo) folder(h plumbing.Hash) (*folder, error) {
	entries, err := r.readTree(h)
	if err != nil {
		return nil, err
	}
	f := &folder{entries: make(map[string]*item, len(entries))}
	for _, e := range entries {
		f.entries[e.name] = &item{entry: e}
	}
	return f, nil
}

// Put adds, changes or removes one file.
func (d *Draft) Put(ctx context.Context, file backup.File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !safePath(file.Path) || strings.Count(file.Path, "/") > d.repo.opts.Limits.Depth {
		return fmt.Errorf("repo: put %s: not a path: %w", quote(file.Path), mesh.ErrInvalid)
	}
	if file.Gone {
		return d.set(file.Path, nil)
	}
	if len(file.Data) > d.repo.opts.Limits.File {
		return faultf(ReasonLimit, "put %s: %d bytes: at most %d: %w", quote(file.Path), len(file.Data), d.repo.opts.Limits.File, mesh.ErrInvalid)
	}
	h, err := d.bulk.write(plumbing.BlobObject, file.Data)
	if err != nil {
		return fmt.Errorf("repo: put %s: %w", quote(file.Path), err)
	}
	return d.set(file.Path, &entry{mode: filemode.Regular, hash: h})
}

// set puts an entry at a path, or removes what is there.
func (d *Draft) set(path string, e *entry) error {
	at := d.root
	parts := strings.Split(path, "/")
	for _, name := range parts[:len(parts)-1] {
		next := at.entries[name]
		switch {
		case next == nil && e == nil:
			return nil
		case next == nil || !next.isDir():
			next = &item{entry: entry{name: name, mode: filemode.Dir}, dir: &folder{entries: map[string]*item{}}}
			at.entries[name] = next
		case next.dir == nil:
			var err error
			if next.dir, err = d.repo.folder(next.hash); err != nil {
				return err
			}
		}
		at.dirty = true
		at = next.dir
	}
	at.dirty = true
	name := parts[len(parts)-1]
	if e == nil {
		delete(at.entries, name)
		return nil
	}
	e.name = name
	at.entries[name] = &item{entry: *e}
	return nil
}

// write stores an object of its own file, unless it is here.
func (r *Repo) write(t plumbing.ObjectType, data []byte) (plumbing.Hash, error) {
	h := plumbing.ComputeHash(t, data)
	if r.has(h) {
		return h, nil
	}
	r.step("object")
	o := new(plumbing.MemoryObject)
	o.SetType(t)
	if _, err := o.Write(data); err != nil {
		return h, err
	}
	_, err := r.store.SetEncodedObject(o)
	return h, err
}

// Close lets go of what the draft holds. It may be called again, and after Commit.
func (d *Draft) Close() error { return d.bulk.close() }

// writeTree stores the folders that changed. An empty one has no hash: Git
// keeps none.
func (d *Draft) writeTree(f *folder) (plumbing.Hash, error) {
	var t object.Tree
	for name, it := range f.entries {
		if it.dir != nil && it.dir.dirty {
			h, err := d.writeTree(it.dir)
			if err != nil {
				return h, err
			}
			it.hash = h
		}
		if it.isDir() && it.hash.IsZero() {
			continue
		}
		t.Entries = append(t.Entries, object.TreeEntry{Name: name, Mode: it.mode, Hash: it.hash})
	}
	if len(t.Entries) == 0 && f != d.root {
		return plumbing.ZeroHash, nil
	}
	slices.SortFunc(t.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	data, err := encoded(t.Encode)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write a folder: %w", err)
	}
	return d.bulk.write(plumbing.TreeObject, data)
}

// sortName orders folders as if their names ended in a slash, as Git does.
func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}
