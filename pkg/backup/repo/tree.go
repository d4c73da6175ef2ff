package repo

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var _ backup.Tree = (*Tree)(nil)

// Tree reads the files of one commit that are the backup's. Whatever the
// repository holds, it is read within the limits, and no path leads outside.
type Tree struct {
	repo   *Repo
	root   plumbing.Hash
	Commit ID
}

// Tree returns the files of a commit.
func (r *Repo) Tree(id ID) (*Tree, error) {
	c, err := r.commit(id)
	if err != nil {
		return nil, err
	}
	return &Tree{repo: r, root: c.tree, Commit: id}, nil
}

// entry is a file or a folder in a tree.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

func (e entry) isDir() bool { return e.mode == filemode.Dir }

func (e entry) isFile() bool {
	return e.mode == filemode.Regular || e.mode == filemode.Executable || e.mode == filemode.Deprecated
}

// Each implements backup.Tree.
func (t *Tree) Each(ctx context.Context, prefix string, f func(path string, data []byte) error) error {
	var total int64
	return t.walk(ctx, prefix, func(path string, e entry) error {
		data, err := t.file(path, e)
		if err != nil {
			return err
		}
		if total += int64(len(data)); total > t.repo.opts.Limits.Tree {
			return faultf(ReasonLimit, "read %s: more than %d bytes of files: %w", t.Commit.Short(), t.repo.opts.Limits.Tree, mesh.ErrInvalid)
		}
		return f(path, data)
	})
}

// Paths hands the path of every file below prefix to f, in order, without
// reading the files.
func (t *Tree) Paths(ctx context.Context, prefix string, f func(path string) error) error {
	return t.walk(ctx, prefix, func(path string, _ entry) error { return f(path) })
}

// File implements backup.Tree.
func (t *Tree) File(ctx context.Context, path string) ([]byte, error) {
	absent := fmt.Errorf("repo: %s: %s: %w", t.Commit.Short(), quote(path), mesh.ErrNotFound)
	if !t.mine(path) {
		return nil, absent
	}
	at := entry{mode: filemode.Dir, hash: t.root}
	for part := range strings.SplitSeq(path, "/") {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !at.isDir() {
			return nil, absent
		}
		entries, err := t.repo.readTree(at.hash)
		if err != nil {
			return nil, err
		}
		i := indexName(entries, part)
		if i < 0 {
			return nil, absent
		}
		at = entries[i]
	}
	if at.isDir() {
		return nil, absent
	}
	return t.file(path, at)
}

func indexName(entries []entry, name string) int {
	for i, e := range entries {
		if e.name == name {
			return i
		}
	}
	return -1
}

func (t *Tree) mine(path string) bool { return t.repo.opts.Mine == nil || t.repo.opts.Mine(path) }

// file reads the content of an entry.
func (t *Tree) file(path string, e entry) ([]byte, error) {
	if !e.isFile() {
		return nil, hostile("%s: it is a %s, not a file", quote(path), kindOf(e.mode))
	}
	data, err := t.repo.read(plumbing.BlobObject, e.hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote(path), err)
	}
	return data, nil
}

func kindOf(m filemode.FileMode) string {
	switch m {
	case filemode.Symlink:
		return "symbolic link"
	case filemode.Submodule:
		return "submodule"
	default:
		return "thing of mode " + m.String()
	}
}

// walk visits every entry of ours below prefix that is no folder, in order.
func (t *Tree) walk(ctx context.Context, prefix string, f func(path string, e entry) error) error {
	n := 0
	return t.walkDir(ctx, "", t.root, prefix, &n, f)
}

func (t *Tree) walkDir(ctx context.Context, dir string, h plumbing.Hash, prefix string, n *int, f func(string, entry) error) error {
	if strings.Count(dir, "/") > t.repo.opts.Limits.Depth {
		return faultf(ReasonLimit, "read %s: folders deeper than %d: %w", t.Commit.Short(), t.repo.opts.Limits.Depth, mesh.ErrInvalid)
	}
	entries, err := t.repo.readTree(h)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := dir + e.name
		if e.isDir() {
			if strings.HasPrefix(path+"/", prefix) || strings.HasPrefix(prefix, path+"/") {
				if err := t.walkDir(ctx, path+"/", e.hash, prefix, n, f); err != nil {
					return err
				}
			}
			continue
		}
		if *n++; *n > t.repo.opts.Limits.Files {
			return faultf(ReasonLimit, "read %s: more than %d files: %w", t.Commit.Short(), t.repo.opts.Limits.Files, mesh.ErrInvalid)
		}
		if !strings.HasPrefix(path, prefix) || !t.mine(path) {
			continue
		}
		if err := f(path, e); err != nil {
			return err
		}
	}
	return nil
}

// readTree reads one folder. Names that lead elsewhere, are there twice, or
// differ in case alone are refused: on somebody's disk they would be one file.
func (r *Repo) readTree(h plumbing.Hash) ([]entry, error) {
	data, err := r.read(plumbing.TreeObject, h)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data)
	if err != nil {
		return nil, err
	}
	return entries, nil
}

func parseTree(data []byte) ([]entry, error) {
	var out []entry
	seen := make(map[string]bool)
	for len(data) > 0 {
		sp, nul := bytes.IndexByte(data, ' '), bytes.IndexByte(data, 0)
		if sp < 1 || nul < sp || len(data) < nul+21 {
			return nil, hostile("a folder is not readable")
		}
		mode, err := strconv.ParseUint(string(data[:sp]), 8, 32)
		if err != nil {
			return nil, hostile("a folder is not readable: mode %q", data[:min(sp, 20)])
		}
		e := entry{name: string(data[sp+1 : nul]), mode: filemode.FileMode(mode), hash: plumbing.Hash(data[nul+1 : nul+21])}
		if !safeName(e.name) {
			return nil, hostile("the name %s leads elsewhere", quote(e.name))
		}
		if fold := strings.ToLower(e.name); seen[fold] {
			return nil, hostile("the name %s is there twice, but for upper and lower case", quote(e.name))
		} else {
			seen[fold] = true
		}
		out = append(out, e)
		data = data[nul+21:]
	}
	return out, nil
}

// hostile refuses what no repository of backups holds.
func hostile(format string, args ...any) error {
	return faultf(ReasonHostile, "refused: "+format+": %w", append(args, mesh.ErrInvalid)...)
}

// safeName says whether a name in a tree can be one on any disk.
func safeName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= 255 &&
		!strings.EqualFold(s, ".git") && !strings.ContainsAny(s, "/\\\x00")
}

// safePath says whether a path consists of safe names.
func safePath(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if !safeName(part) {
			return false
		}
	}
	return true
}

// quote makes what comes from outside short and harmless in a message.
func quote(s string) string {
	if len(s) > 120 {
		s = s[:120] + "…"
	}
	return strconv.Quote(s)
}
