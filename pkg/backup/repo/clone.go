package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Clone gets what a remote's branch holds into a folder that does not exist
// yet, with that as its head. With dir "" it lies in a private temporary
// folder that goes with Close, and knows the tags of what it got. depth bounds the commits; 0 gets all. It
// returns ErrNotFound for a repository without the branch.
func Clone(ctx context.Context, rm Remote, dir string, depth int, opts Options) (_ *Repo, err error) {
	var r *Repo
	if dir == "" {
		tmp, err := os.MkdirTemp("", "meshctl-clone-")
		if err != nil {
			return nil, fmt.Errorf("repo: clone: %w", err)
		}
		dir = filepath.Join(tmp, "repo.git")
		if r, err = Open(ctx, dir, opts); err != nil {
			return nil, errors.Join(err, os.RemoveAll(tmp))
		}
		r.temp = tmp
	} else {
		if exists(dir) {
			return nil, fmt.Errorf("repo: clone to %s: %w", dir, mesh.ErrExists)
		}
		if r, err = Open(ctx, dir, opts); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	head, err := r.fetch(ctx, rm, depth)
	if err != nil {
		return nil, err
	}
	if head == "" {
		return nil, faultf(ReasonMissing, "clone: the remote %s has no branch %s: %w", rm.Name, rm.branchRef()[len("refs/heads/"):], mesh.ErrNotFound)
	}
	return r, r.setRef(headRef, head)
}

// noteTags remembers which commits of ours a remote's tags are on. Those of
// others are none of what was asked for.
func (r *Repo) noteTags(adv *packp.AdvRefs) error {
	for name, h := range adv.References {
		if on, ok := adv.Peeled[name]; ok {
			h = on
		}
		if strings.HasPrefix(name, "refs/tags/") && safePath(name) && r.has(h) {
			if err := r.setRef(name, idOf(h)); err != nil {
				return err
			}
		}
	}
	return nil
}
