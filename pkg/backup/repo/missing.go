package repo

import (
	"container/heap"
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// between returns the commits in the history of want and in that of none of
// haves, parents before children. Where clocks went back it may return some
// that haves have, and never leaves one out.
func (r *Repo) between(ctx context.Context, want ID, haves []ID) ([]commit, error) {
	w := &rangeWalk{repo: r, known: make(map[ID]*mark)}
	if err := w.add(want, false); err != nil {
		return nil, err
	}
	for _, h := range haves {
		if h != "" && r.has(h.hash()) {
			if err := w.add(h, true); err != nil {
				return nil, err
			}
		}
	}
	var out []*mark
	for w.open > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m := heap.Pop(&w.queue).(*mark)
		m.queued = false
		if !m.had {
			w.open--
			out = append(out, m)
		}
		for _, p := range m.commit.parents {
			if err := w.add(p, m.had); err != nil {
				return nil, err
			}
		}
	}
	var commits []commit
	for _, m := range slices.Backward(out) {
		if !m.had {
			commits = append(commits, m.commit)
		}
	}
	return parentsFirst(commits), nil
}

// mark is what the walk knows of a commit.
type mark struct {
	commit commit
	had    bool // somebody has it already
	queued bool
}

type rangeWalk struct {
	repo  *Repo
	known map[ID]*mark
	queue markHeap
	open  int // queued, and had by nobody
}

func (w *rangeWalk) add(id ID, had bool) error {
	m := w.known[id]
	if m == nil {
		c, err := w.repo.commit(id)
		if err != nil {
			return err
		}
		m = &mark{commit: c, had: had, queued: true}
		w.known[id] = m
		heap.Push(&w.queue, m)
		if !had {
			w.open++
		}
		return nil
	}
	if had && !m.had {
		m.had = true
		if m.queued {
			w.open--
			return nil
		}
		for _, p := range m.commit.parents {
			if err := w.add(p, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// markHeap has the newest commit first.
type markHeap []*mark

func (h markHeap) Len() int           { return len(h) }
func (h markHeap) Less(i, j int) bool { return h[i].commit.when.After(h[j].commit.when) }
func (h markHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *markHeap) Push(x any) { *h = append(*h, x.(*mark)) }

// Pop implements heap.Interface.
func (h *markHeap) Pop() any {
	old := *h
	m := old[len(old)-1]
	*h = old[:len(old)-1]
	return m
}

// parentsFirst orders commits so that each comes after its parents.
func parentsFirst(in []commit) []commit {
	byID := make(map[ID]commit, len(in))
	for _, c := range in {
		byID[c.id] = c
	}
	var out []commit
	done := make(map[ID]bool, len(in))
	for _, c := range in {
		for stack := []ID{c.id}; len(stack) > 0; {
			id := stack[len(stack)-1]
			c, here := byID[id]
			if !here || done[id] {
				stack = stack[:len(stack)-1]
				continue
			}
			waits := false
			for _, p := range c.parents {
				if _, here := byID[p]; here && !done[p] {
					stack = append(stack, p)
					waits = true
				}
			}
			if !waits {
				done[id] = true
				out = append(out, c)
				stack = stack[:len(stack)-1]
			}
		}
	}
	return out
}

// parcel is one object of a pack, and one that it may be told as a change of.
type parcel struct {
	hash, base plumbing.Hash
	kind       plumbing.ObjectType
}

// parcels are the objects that commits bring beyond their parents. thin allows
// changes of objects that are not among them, which the receiver has.
func (r *Repo) parcels(ctx context.Context, commits []commit, thin bool) ([]parcel, error) {
	var out []parcel
	seen := make(map[plumbing.Hash]bool)
	add := func(kind plumbing.ObjectType, h, base plumbing.Hash) {
		if seen[h] {
			return
		}
		if !thin && !seen[base] {
			base = plumbing.ZeroHash
		}
		seen[h] = true
		out = append(out, parcel{hash: h, base: base, kind: kind})
	}
	for _, c := range commits {
		add(plumbing.CommitObject, c.id.hash(), plumbing.ZeroHash)
		before, err := r.parentTree(c)
		if err != nil {
			return nil, err
		}
		if before != c.tree {
			add(plumbing.TreeObject, c.tree, before)
		}
		err = r.diff(ctx, before, c.tree, func(_ string, before, after entry) error {
			switch {
			case after.hash.IsZero() || after.mode == filemode.Submodule:
			case after.isDir():
				add(plumbing.TreeObject, after.hash, dirHash(before))
			case before.isDir():
				add(plumbing.BlobObject, after.hash, plumbing.ZeroHash)
			default:
				add(plumbing.BlobObject, after.hash, before.hash)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *Repo) parentTree(c commit) (plumbing.Hash, error) {
	if len(c.parents) == 0 {
		return plumbing.ZeroHash, nil
	}
	return r.treeOf(c.parents[0])
}
