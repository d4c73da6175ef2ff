package repo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// pushStep is how many commits go in one push.
const pushStep = 400

// push moves ref at the remote to an object (a commit, or a tag on one), or a
// step towards it, and returns where it is now.
func (r *Repo) push(ctx context.Context, rm Remote, ref string, object, on ID, allow Allow) (at ID, err error) {
	if on == "" {
		return "", fmt.Errorf("repo: push to %s: no commit: %w", rm.Name, mesh.ErrNotFound)
	}
	err = r.converse(ctx, rm, receivePack, func(ctx context.Context, c *conversation) error {
		old := idOf(c.adv.References[ref])
		if old == object {
			at = object
			return nil
		}
		if err := r.forward(ctx, rm, ref, old, object, on); err != nil {
			return err
		}
		at = object
		if object == on {
			if at, err = r.pushTarget(ctx, old, on); err != nil {
				return err
			}
		}
		u := update{ref: ref, old: old, to: at, commit: at}
		if object != on {
			u.commit = on
		}
		body, size, err := r.pushBody(ctx, c.adv, u)
		if err != nil {
			return err
		}
		defer body.Close()
		if allow != nil {
			if err := allow(ctx); err != nil {
				return err
			}
		}
		r.step("push")
		answer, err := c.ask(ctx, &stopReader{ctx, body, func() { r.step("sending") }}, size)
		if err != nil {
			return err
		}
		r.step("pushed")
		return pushed(answer, ref)
	})
	if err != nil {
		return "", err
	}
	return at, nil
}

// forward refuses what would not be a fast-forward.
func (r *Repo) forward(ctx context.Context, rm Remote, ref string, old, object, on ID) error {
	if old == "" {
		return nil
	}
	ok := false
	if object == on && r.has(old.hash()) {
		var err error
		if ok, err = r.isAncestor(ctx, old, on); err != nil {
			return err
		}
	}
	if !ok {
		return faultf(ReasonForeign, "push to %s: %s is at %s there, which is not in our history: %w", rm.Name, ref, old.Short(), mesh.ErrConflict)
	}
	return nil
}

// pushTarget is the commit to push next on the way from old to id.
func (r *Repo) pushTarget(ctx context.Context, old, id ID) (ID, error) {
	chain := []ID{id}
	for c, err := range r.Log(ctx, id) {
		if err != nil {
			return "", err
		}
		if c.ID == old {
			break
		}
		if c.ID != id {
			chain = append(chain, c.ID)
		}
		if len(c.Parents) == 0 && old != "" {
			return id, nil // old is on a side line
		}
	}
	if len(chain) <= pushStep {
		return id, nil
	}
	return chain[len(chain)-pushStep], nil
}

// update moves a reference from old to an object that is a commit or on one.
type update struct {
	ref             string
	old, to, commit ID
}

// pushBody is the question: the update, and a pack of what it wants. It lies in
// a file, since https wants its size first.
func (r *Repo) pushBody(ctx context.Context, adv *packp.AdvRefs, u update) (body *os.File, size int64, err error) {
	var haves []ID
	for _, h := range adv.References {
		if r.has(h) {
			if id, err := r.peel(idOf(h)); err == nil {
				haves = append(haves, id)
			}
		}
	}
	commits, err := r.between(ctx, u.commit, haves)
	if err != nil {
		return nil, 0, err
	}
	parcels, err := r.parcels(ctx, commits, len(haves) > 0 && len(adv.Shallows) == 0)
	if err != nil {
		return nil, 0, err
	}
	if u.to != u.commit {
		parcels = append(parcels, parcel{hash: u.to.hash(), kind: plumbing.TagObject})
	}
	f, err := r.spool()
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	from := plumbing.ZeroHash
	if u.old != "" {
		from = u.old.hash()
	}
	e := pktline.NewEncoder(f)
	if err := e.EncodeString(fmt.Sprintf("%s %s %s\x00report-status %s", from, u.to, u.ref, agentCap), pktline.FlushString); err != nil {
		return nil, 0, fmt.Errorf("repo: push: %w", err)
	}
	if err := r.writePack(ctx, f, parcels); err != nil {
		return nil, 0, err
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return nil, 0, fmt.Errorf("repo: push: %w", err)
	}
	if _, err = f.Seek(0, io.SeekStart); err != nil {
		return nil, 0, fmt.Errorf("repo: push: %w", err)
	}
	return f, size, nil
}

// pushed reads what became of a push.
func pushed(answer io.Reader, ref string) error {
	s := pktline.NewScanner(io.LimitReader(answer, 1<<20))
	ok := false
	for s.Scan() {
		line := string(bytes.TrimSpace(s.Bytes()))
		if line == "" {
			break
		}
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == "unpack" && rest != "ok":
			reason := classify(rest)
			if reason == ReasonOther || reason == ReasonDiskFull {
				reason = ReasonRefused // their disk, not ours
			}
			return faultf(reason, "push: the remote could not store it: %s: %w", quote(rest), mesh.ErrUnavailable)
		case word == "ng":
			_, why, _ := strings.Cut(rest, " ")
			return refusal(why)
		case word == "ok":
			ok = ok || rest == ref
		}
	}
	if !ok {
		return faultf(ReasonConnection, "push: the remote did not say that it is stored: %w", mesh.ErrUnavailable)
	}
	return nil
}

// refusal tells another pusher who was faster from a server that says no.
func refusal(why string) error {
	low := strings.ToLower(why)
	for _, p := range []string{"fast-forward", "fetch first", "failed to update ref", "cannot lock ref", "failed to lock", "already exists", "stale info", "reference", "incorrect old value"} {
		if strings.Contains(low, p) {
			return faultf(ReasonForeign, "push: somebody else was faster: the remote says %s: %w", quote(why), mesh.ErrConflict)
		}
	}
	if strings.Contains(low, "missing necessary objects") || strings.Contains(low, "shallow") {
		// An empty clone gets a part of a history, and nobody has the rest there.
		err := faultf(ReasonRefused, "push: the history before ours is not there: the remote says %s: %w", quote(why), mesh.ErrConflict)
		return mesh.WithHint(err, "copy what another remote has there first: git clone --mirror OTHER x, git -C x push --mirror THIS")
	}
	return faultf(ReasonRefused, "push: the remote refuses it: %s: %w", quote(why), mesh.ErrDenied)
}
