package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Commit is one backup in the history.
type Commit struct {
	ID       ID
	Parents  []ID
	When     time.Time
	Author   string
	Message  string            // whole, with trailers
	Trailers map[string]string // such as Meshctl-Epoch
	Signed   bool              // it carries a signature, which is not checked here
}

// commit is what the walks need of one.
type commit struct {
	id      ID
	tree    plumbing.Hash
	parents []ID
	when    time.Time
	raw     *object.Commit
}

func (r *Repo) commit(id ID) (commit, error) {
	if id == "" {
		return commit{}, fmt.Errorf("repo: no commit: %w", mesh.ErrNotFound)
	}
	data, err := r.read(plumbing.CommitObject, id.hash())
	if err != nil {
		return commit{}, err
	}
	o := new(plumbing.MemoryObject)
	o.SetType(plumbing.CommitObject)
	if _, err := o.Write(data); err != nil {
		return commit{}, fmt.Errorf("repo: read commit %s: %w", id.Short(), err)
	}
	raw := new(object.Commit)
	if err := raw.Decode(o); err != nil {
		return commit{}, hostile("commit %s is not readable", id.Short())
	}
	c := commit{id: id, tree: raw.TreeHash, when: raw.Committer.When, raw: raw}
	for _, p := range raw.ParentHashes {
		c.parents = append(c.parents, idOf(p))
	}
	if r.shallow[id] {
		c.parents = nil
	}
	return c, nil
}

func (c commit) public() Commit {
	return Commit{
		ID: c.id, Parents: c.parents, When: c.when, Author: c.raw.Author.Name,
		Message: c.raw.Message, Trailers: trailers(c.raw.Message), Signed: c.raw.PGPSignature != "",
	}
}

// Commit returns one commit.
func (r *Repo) Commit(id ID) (Commit, error) {
	c, err := r.commit(id)
	if err != nil {
		return Commit{}, err
	}
	return c.public(), nil
}

// trailers are the "Key: value" lines at the end of a message.
func trailers(msg string) map[string]string {
	out := make(map[string]string)
	msg = strings.TrimSpace(msg)
	last := msg[strings.LastIndex(msg, "\n\n")+1:]
	for line := range strings.Lines(last) {
		k, v, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && k != "" && strings.Trim(k, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == "" {
			out[k] = v
		}
	}
	return out
}

// Log goes back from a commit along first parents, the newest first. "" begins
// at the head. It yields at most one error, last.
func (r *Repo) Log(ctx context.Context, from ID) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		at := from
		if at == "" {
			at = r.Head()
		}
		for at != "" {
			c, err := r.commit(at)
			if err = errors.Join(ctx.Err(), err); err != nil {
				yield(Commit{}, err)
				return
			}
			if !yield(c.public(), nil) || len(c.parents) == 0 {
				return
			}
			at = c.parents[0]
		}
	}
}

// Resolve finds a commit by "" (the head), a hash or at least seven digits of
// one, a tag, or a time (RFC 3339, or a day, which means its end): the newest
// one that was there then. It returns ErrNotFound, or ErrInvalid when more than
// one begins like that.
func (r *Repo) Resolve(ctx context.Context, at string) (ID, error) {
	if at == "" {
		if h := r.Head(); h != "" {
			return h, nil
		}
		return "", fmt.Errorf("repo: no backup yet: %w", mesh.ErrNotFound)
	}
	if t, ok := parseTime(at); ok {
		return r.atTime(ctx, t)
	}
	if safePath(at) {
		if id := r.ref("refs/tags/" + at); id != "" {
			return r.peel(id)
		}
	}
	if len(at) < 7 || len(at) > 40 || strings.Trim(at, "0123456789abcdef") != "" {
		return "", mesh.WithHint(fmt.Errorf("repo: %s: no commit, tag or time: %w", quote(at), mesh.ErrInvalid),
			"name a commit (at least seven digits), a tag, or a time such as 2026-01-31T12:00:00Z")
	}
	return r.byPrefix(ctx, at)
}

func parseTime(s string) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, true
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Add(24*time.Hour - time.Nanosecond), true
	}
	return time.Time{}, false
}

func (r *Repo) atTime(ctx context.Context, t time.Time) (ID, error) {
	for c, err := range r.Log(ctx, "") {
		if err != nil {
			return "", err
		}
		if !c.When.After(t) {
			return c.ID, nil
		}
	}
	return "", fmt.Errorf("repo: no backup is as old as %s: %w", t.UTC().Format(time.RFC3339), mesh.ErrNotFound)
}

// byPrefix looks at the whole history.
func (r *Repo) byPrefix(ctx context.Context, prefix string) (ID, error) {
	var found ID
	err := r.ancestors(ctx, []ID{r.Head()}, func(c commit) (next, error) {
		if strings.HasPrefix(string(c.id), prefix) {
			if found != "" {
				return halt, fmt.Errorf("repo: more than one commit begins with %s: %w", prefix, mesh.ErrInvalid)
			}
			found = c.id
		}
		return goOn, nil
	})
	if err == nil && found == "" {
		err = fmt.Errorf("repo: no commit %s: %w", prefix, mesh.ErrNotFound)
	}
	return found, err
}

// next is how a walk goes on after a commit.
type next int

const (
	goOn  next = iota
	leave      // not to its parents
	halt       // nowhere
)

// ancestors visits commits and what is before them, each once, the nearest
// first, as f says.
func (r *Repo) ancestors(ctx context.Context, from []ID, f func(commit) (next, error)) error {
	seen := make(map[ID]bool)
	for queue := from; len(queue) > 0; {
		id := queue[0]
		queue = queue[1:]
		if id == "" || seen[id] {
			continue
		}
		seen[id] = true
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := r.commit(id)
		if err != nil {
			return err
		}
		n, err := f(c)
		if err != nil || n == halt {
			return err
		}
		if n == goOn {
			queue = append(queue, c.parents...)
		}
	}
	return nil
}

// isAncestor says whether old is in the history of id, or is id.
func (r *Repo) isAncestor(ctx context.Context, old, id ID) (bool, error) {
	found := false
	err := r.ancestors(ctx, []ID{id}, func(c commit) (next, error) {
		if found = c.id == old; found {
			return halt, nil
		}
		return goOn, nil
	})
	return found, err
}

// peel follows an annotated tag to its commit.
func (r *Repo) peel(id ID) (ID, error) {
	o, err := r.store.EncodedObject(plumbing.AnyObject, id.hash())
	if err != nil {
		return "", damaged(err, "read %s", id.Short())
	}
	if o.Type() == plumbing.CommitObject {
		return id, nil
	}
	data, err := r.read(plumbing.TagObject, id.hash())
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	to, ok := parseID(strings.TrimPrefix(string(line), "object "))
	if !ok {
		return "", hostile("tag %s is not readable", id.Short())
	}
	return to, nil
}
