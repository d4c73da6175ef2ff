package repo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Trailers of every commit of ours.
const (
	TrailerEpoch    = "Meshctl-Epoch"
	TrailerRevision = "Meshctl-Revision"
)

// Meta is what a commit says beside its files.
type Meta struct {
	Parents  []ID // none for the first
	Message  string
	Trailers []Trailer
	Name     string // of author and committer; default meshctl
	Email    string // default meshctl@localhost
	When     time.Time
	// SignKey signs the commit: an SSH private key in PEM, without passphrase.
	SignKey mesh.Secret
}

// Trailer is one line "Key: value" at the end of a message.
type Trailer struct{ Key, Value string }

func (m Meta) signature() object.Signature {
	return object.Signature{Name: plainName(cmp.Or(m.Name, "meshctl")), Email: plainName(cmp.Or(m.Email, "meshctl@localhost")), When: m.When}
}

// plainName leaves out what would end the field.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

func (m Meta) text() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(strings.ReplaceAll(m.Message, "\x00", "")))
	b.WriteByte('\n')
	for i, t := range m.Trailers {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n", t.Key, strings.Join(strings.Fields(t.Value), " "))
	}
	return b.String()
}

// Commit writes the draft as a commit and moves the head to it. A draft that
// changed nothing, on one parent whose tree it began with, is no commit: the
// parent comes back.
func (d *Draft) Commit(ctx context.Context, m Meta) (ID, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	tree := d.base
	if d.root.dirty || tree.IsZero() {
		var err error
		if tree, err = d.writeTree(d.root); err != nil {
			return "", fmt.Errorf("repo: commit: %w", err)
		}
	}
	if err := d.bulk.finish(ctx); err != nil {
		return "", fmt.Errorf("repo: commit: %w", err)
	}
	if tree == d.base && len(m.Parents) == 1 {
		if c, err := d.repo.commit(m.Parents[0]); err == nil && c.tree == tree {
			return c.id, d.repo.setHead(ctx, c.id)
		}
	}
	d.repo.step("trees")
	id, err := d.repo.writeCommit(tree, m)
	if err != nil {
		return "", fmt.Errorf("repo: commit: %w", err)
	}
	d.repo.step("commit")
	return id, d.repo.setHead(ctx, id)
}

func (r *Repo) writeCommit(tree plumbing.Hash, m Meta) (ID, error) {
	c := &object.Commit{Author: m.signature(), Committer: m.signature(), Message: m.text(), TreeHash: tree}
	for _, p := range m.Parents {
		if p != "" && !slices.Contains(c.ParentHashes, p.hash()) {
			c.ParentHashes = append(c.ParentHashes, p.hash())
		}
	}
	if m.SignKey != "" {
		text, err := encoded(c.EncodeWithoutSignature)
		if err != nil {
			return "", err
		}
		if c.PGPSignature, err = signSSH(m.SignKey, text); err != nil {
			return "", err
		}
	}
	data, err := encoded(c.Encode)
	if err != nil {
		return "", err
	}
	h, err := r.write(plumbing.CommitObject, data)
	return idOf(h), err
}

// encoded is what an object writes of itself.
func encoded(encode func(plumbing.EncodedObject) error) ([]byte, error) {
	o := new(plumbing.MemoryObject)
	if err := encode(o); err != nil {
		return nil, err
	}
	rd, err := o.Reader()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, rd)
	return b.Bytes(), err
}

// setHead moves the head, and packs what became too much.
func (r *Repo) setHead(ctx context.Context, id ID) error {
	if r.Head() == id {
		return nil
	}
	if err := r.setRef(headRef, id); err != nil {
		return err
	}
	r.step("head")
	return r.packIfMany(ctx)
}

// Tag writes an annotated tag on a commit, and returns its id for PushTag. A
// tag of that name is replaced.
func (r *Repo) Tag(name string, on ID, m Meta) (ID, error) {
	if !safePath(name) {
		return "", fmt.Errorf("repo: tag %s: not a name: %w", quote(name), mesh.ErrInvalid)
	}
	t := &object.Tag{Name: name, Tagger: m.signature(), Message: m.text(), TargetType: plumbing.CommitObject, Target: on.hash()}
	if m.SignKey != "" {
		text, err := encoded(t.EncodeWithoutSignature)
		if err != nil {
			return "", fmt.Errorf("repo: tag: %w", err)
		}
		sig, err := signSSH(m.SignKey, text)
		if err != nil {
			return "", fmt.Errorf("repo: tag: %w", err)
		}
		t.Message += sig
	}
	data, err := encoded(t.Encode)
	if err != nil {
		return "", fmt.Errorf("repo: tag: %w", err)
	}
	h, err := r.write(plumbing.TagObject, data)
	if err != nil {
		return "", fmt.Errorf("repo: tag: %w", err)
	}
	return idOf(h), r.setRef("refs/tags/"+name, idOf(h))
}
