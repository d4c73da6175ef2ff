package repo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Outcome is what was made of what a remote held.
type Outcome string

// Outcomes.
const (
	OutcomeEmpty    Outcome = "empty"    // nothing there: new, or the branch was deleted
	OutcomeSame     Outcome = "same"     // our head
	OutcomeBehind   Outcome = "behind"   // an older state of ours; a push brings it forward
	OutcomeAdopted  Outcome = "adopted"  // a newer state of ours, now our head
	OutcomeMerged   Outcome = "merged"   // others' commits that left our files alone, or two lines of ours
	OutcomeConflict Outcome = "conflict" // others' commits that touched our files: ours stand, theirs are in Branch
)

// Integration is what Integrate did.
type Integration struct {
	Outcome Outcome
	Remote  ID     // what the remote held
	Head    ID     // ours now
	Branch  string // that keeps what others did to our files, or ""
}

// Integrator takes in what a remote holds, so that a push is a fast-forward.
type Integrator struct {
	// Ours says whether a commit's files are a whole backup of this mesh: nil
	// if so. It is asked about few commits.
	Ours func(ctx context.Context, t *Tree) error
	// Allow is asked before a branch is made at the remote.
	Allow Allow
	// When is the time of merge commits, and in the name of the branch.
	When time.Time
	// Meta of merge commits; Message, Parents and When are set here.
	Meta Meta
}

// maxLook bounds how many commits of a remote are asked about.
const maxLook = 50

// Integrate fetches from a remote and makes our head follow what it holds. No
// commit is ever dropped, there or here.
func (g Integrator) Integrate(ctx context.Context, r *Repo, rm Remote) (Integration, error) {
	theirs, err := r.Fetch(ctx, rm)
	if err != nil {
		return Integration{}, err
	}
	in := Integration{Remote: theirs, Head: r.Head()}
	in.Outcome, err = g.relate(ctx, r, theirs, in.Head)
	if err != nil || in.Outcome != "" {
		return in, err
	}
	if err := g.ours(ctx, r, theirs); err == nil {
		return g.takeOurs(ctx, r, in)
	} else if ctx.Err() != nil {
		return in, ctx.Err()
	} else if reason := ReasonOf(err); reason == ReasonDiskFull || reason == ReasonDamaged {
		return in, err // it says nothing about who wrote it
	}
	return g.takeForeign(ctx, r, rm, in)
}

// relate finds what needs no look at the files.
func (g Integrator) relate(ctx context.Context, r *Repo, theirs, head ID) (Outcome, error) {
	switch {
	case theirs == "":
		return OutcomeEmpty, nil
	case theirs == head:
		return OutcomeSame, nil
	case head == "":
		return "", nil
	}
	if old, err := r.isAncestor(ctx, theirs, head); err != nil || old {
		return OutcomeBehind, err
	}
	return "", nil
}

func (g Integrator) ours(ctx context.Context, r *Repo, id ID) error {
	t, err := r.Tree(id)
	if err != nil {
		return err
	}
	return g.Ours(ctx, t)
}

// takeOurs takes over a state of ours that is not in our history: it is newer,
// or another server's beside it.
func (g Integrator) takeOurs(ctx context.Context, r *Repo, in Integration) (Integration, error) {
	newer := in.Head == ""
	if !newer {
		var err error
		if newer, err = r.isAncestor(ctx, in.Head, in.Remote); err != nil {
			return in, err
		}
	}
	if newer {
		in.Outcome = OutcomeAdopted
		in.Head = in.Remote
		return in, r.setHead(ctx, in.Remote)
	}
	in.Outcome = OutcomeMerged
	var err error
	in.Head, err = g.merge(ctx, r, in.Remote, in.Head, "Take in what another server wrote")
	return in, err
}

// takeForeign takes in commits of others. What they changed of our files is
// kept in a branch, and ours stand.
func (g Integrator) takeForeign(ctx context.Context, r *Repo, rm Remote, in Integration) (Integration, error) {
	base, err := g.lastOurs(ctx, r, in)
	if err != nil {
		return in, err
	}
	touched, err := g.touched(ctx, r, base, in.Remote)
	if err != nil {
		return in, err
	}
	in.Outcome = OutcomeMerged
	text := "Take in what others wrote beside this backup"
	if touched {
		in.Outcome = OutcomeConflict
		in.Branch = "conflict/" + g.When.UTC().Format("20060102T150405Z")
		text = "Restore this backup\n\nSomebody else changed its files. What they wrote is in the branch\n" + in.Branch + "."
		if err := r.PushBranch(ctx, rm, in.Branch, in.Remote, g.Allow); err != nil {
			return in, fmt.Errorf("keep what others wrote: %w", err)
		}
	}
	keep := in.Head
	if keep == "" {
		keep = base
	}
	in.Head, err = g.merge(ctx, r, in.Remote, keep, text)
	return in, err
}

// lastOurs is the commit that the others built on: the newest in their history
// that is in ours too, or, while we have none, the newest whose files are ours.
func (g Integrator) lastOurs(ctx context.Context, r *Repo, in Integration) (ID, error) {
	known := make(map[ID]bool)
	if in.Head != "" {
		err := r.ancestors(ctx, []ID{in.Head}, func(c commit) (next, error) {
			known[c.id] = true
			return goOn, nil
		})
		if err != nil {
			return "", err
		}
	}
	var found ID
	looked := 0
	err := r.ancestors(ctx, []ID{in.Remote}, func(c commit) (next, error) {
		if known[c.id] {
			found = c.id
			return halt, nil
		}
		if in.Head == "" {
			if looked++; looked > maxLook {
				return halt, nil
			}
			if err := g.ours(ctx, r, c.id); err == nil {
				found = c.id
				return halt, nil
			}
		}
		return goOn, ctx.Err()
	})
	return found, err
}

// touched says whether others changed files of ours after base. Where they
// never had any, the page that a new repository is born with is none.
func (g Integrator) touched(ctx context.Context, r *Repo, base, theirs ID) (bool, error) {
	a, err := r.treeOf(base)
	if err != nil {
		return false, err
	}
	b, err := r.treeOf(theirs)
	if err != nil {
		return false, err
	}
	touched := false
	err = r.diff(ctx, a, b, func(path string, before, after entry) error {
		if before.isDir() && after.isDir() || base == "" && path == "README.md" {
			return nil
		}
		t := &Tree{repo: r}
		gone := before.isDir() || before.hash.IsZero()
		if added := after.isDir() || after.hash.IsZero(); gone && added {
			return nil // folders say nothing, their files do
		}
		touched = touched || t.mine(path)
		return nil
	})
	if ReasonOf(err) == ReasonHostile || ReasonOf(err) == ReasonLimit {
		return true, nil
	}
	return touched, err
}

// merge makes a commit on both, with our files as in keep ("": none) and
// theirs beside them, and moves the head to it.
func (g Integrator) merge(ctx context.Context, r *Repo, theirs, keep ID, text string) (ID, error) {
	d, err := r.Begin(keep)
	if err != nil {
		return "", err
	}
	if err := d.foreignOf(ctx, theirs); err != nil {
		if reason := ReasonOf(err); reason != ReasonHostile && reason != ReasonLimit {
			return "", err
		}
		// Paths that nobody could check out are not carried on.
		if d, err = r.Begin(keep); err != nil {
			return "", err
		}
	}
	m := g.Meta
	m.Message, m.When, m.Parents = text, g.When, []ID{theirs, keep}
	id, err := d.Commit(ctx, m)
	if err != nil {
		return "", fmt.Errorf("repo: take in %s: %w", theirs.Short(), err)
	}
	return id, nil
}

// foreignOf makes the files of the draft that are not ours those of a commit.
func (d *Draft) foreignOf(ctx context.Context, id ID) error {
	now := plumbing.ZeroHash
	if !d.base.IsZero() {
		now = d.base
	}
	then, err := d.repo.treeOf(id)
	if err != nil {
		return err
	}
	t := &Tree{repo: d.repo}
	return d.repo.diff(ctx, now, then, func(path string, before, after entry) error {
		if d.repo.opts.Mine == nil || t.mine(path) {
			return nil
		}
		switch {
		case !after.hash.IsZero() && !after.isDir():
			return d.set(path, &entry{mode: after.mode, hash: after.hash})
		case !before.hash.IsZero() && !before.isDir() && after.hash.IsZero():
			return d.set(path, nil)
		}
		return nil
	})
}

// ConflictBranch says whether a branch is one that Integrate made.
func ConflictBranch(name string) bool { return strings.HasPrefix(name, "conflict/") }
