package repo

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Remote is a repository elsewhere, and how it is logged in to. It prints
// without its credential.
type Remote struct {
	Name       string // becomes part of a reference; see mesh.CheckBackupName
	URL        string // a path, file://, ssh://, host:path or https://
	Branch     string // default main
	User       string // default git, unless the URL names one
	Auth       mesh.BackupAuth
	KnownHosts []string // lines of known_hosts; SSH wants the server's there
	// Credential is the SSH private key (PEM, without passphrase) or the token.
	// It is held in memory alone.
	Credential mesh.Secret
	// RootCAs are trusted for https; nil means the system's.
	RootCAs *x509.CertPool
}

// String returns the remote's name.
func (rm Remote) String() string { return rm.Name }

// LogValue is the remote's name.
func (rm Remote) LogValue() slog.Value { return slog.StringValue(rm.Name) }

func (rm Remote) branchRef() string {
	return "refs/heads/" + cmp.Or(rm.Branch, mesh.DefaultBackupBranch)
}

// check returns how the remote is reached, with what is left out filled in.
func (rm Remote) check() (Remote, mesh.RemoteKind, error) {
	kind, user, err := mesh.ParseRemoteURL(rm.URL)
	if err != nil {
		return rm, "", err
	}
	if err := mesh.CheckBackupName(rm.Name); err != nil {
		return rm, "", err
	}
	if !safePath(rm.branchRef()) {
		return rm, "", fmt.Errorf("repo: branch %s: not a name: %w", quote(rm.Branch), mesh.ErrInvalid)
	}
	rm.User = cmp.Or(rm.User, user, mesh.DefaultBackupUser)
	return rm, kind, nil
}

// path is the folder that a local remote is.
func (rm Remote) path() (string, error) {
	if !strings.HasPrefix(rm.URL, "file://") {
		return rm.URL, nil
	}
	u, err := url.Parse(rm.URL)
	if err != nil {
		return "", fmt.Errorf("repo: URL is not readable: %w", mesh.ErrInvalid)
	}
	return u.Path, nil
}

// Heads are the branches that a remote holds now, by name without refs/heads/.
func (r *Repo) Heads(ctx context.Context, rm Remote) (map[string]ID, error) {
	out := make(map[string]ID)
	err := r.converse(ctx, rm, uploadPack, func(_ context.Context, c *conversation) error {
		for name, h := range c.adv.References {
			if b, ok := strings.CutPrefix(name, "refs/heads/"); ok {
				out[b] = idOf(h)
			}
		}
		return nil
	})
	return out, err
}

// RemoteHead asks a remote what its branch points to, "" when it is not there.
func (r *Repo) RemoteHead(ctx context.Context, rm Remote) (ID, error) {
	var head ID
	err := r.converse(ctx, rm, uploadPack, func(_ context.Context, c *conversation) error {
		head = idOf(c.adv.References[rm.branchRef()])
		return nil
	})
	return head, err
}

// Fetch gets what a remote's branch holds and we do not, and returns its head,
// "" for an empty repository or one without the branch. The own head stays. An
// empty clone gets the newest Limits.History commits: to index an object takes
// half a kilobyte of memory, and there is no end to a history.
func (r *Repo) Fetch(ctx context.Context, rm Remote) (ID, error) {
	if len(r.refs("refs")) == 0 {
		return r.fetch(ctx, rm, r.opts.Limits.History)
	}
	return r.fetch(ctx, rm, 0)
}

// fetch gets at most depth commits, all with 0.
func (r *Repo) fetch(ctx context.Context, rm Remote, depth int) (ID, error) {
	var head ID
	err := r.converse(ctx, rm, uploadPack, func(ctx context.Context, c *conversation) error {
		h := c.adv.References[rm.branchRef()]
		head = idOf(h)
		if head == "" || r.has(h) {
			return nil
		}
		if err := r.getPack(ctx, c, head, depth); err != nil {
			return err
		}
		if _, err := r.commit(head); err != nil {
			return faultf(ReasonFormat, "fetch: the remote did not send its head: %w", err)
		}
		if r.temp != "" {
			return r.noteTags(c.adv)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	r.step("fetched")
	return head, r.setRef(remoteRef(rm.Name), head)
}

// maxHaves bounds what a fetch says that we have.
const maxHaves = 256

// haves are commits of ours that the remote may know: the head, what the
// remotes held, and behind each ever sparser ones.
func (r *Repo) haves() []ID {
	from := append([]ID{r.Head()}, slices.Sorted(maps.Values(r.refs("refs/remotes")))...)
	var out []ID
	seen := make(map[ID]bool)
	for _, id := range from {
		for n, next := 0, 0; id != "" && !seen[id] && len(out) < maxHaves; n++ {
			seen[id] = true
			c, err := r.commit(id)
			if err != nil {
				break // it says less, and more is sent
			}
			if n == next {
				out = append(out, id)
				next += max(1, n/8)
			}
			id = ""
			if len(c.parents) > 0 {
				id = c.parents[0]
			}
		}
	}
	return out
}

// Allow is asked before anything at a remote is changed. An error stops it.
type Allow func(ctx context.Context) error

// Push moves a remote's branch forward to a commit, and looks whether it is
// there. It never forces: a head that is not in the commit's history is
// ErrConflict, with ReasonForeign. A long history goes in steps, each of which
// is a whole backup.
func (r *Repo) Push(ctx context.Context, rm Remote, id ID, allow Allow) error {
	for {
		at, err := r.push(ctx, rm, rm.branchRef(), id, id, allow)
		if err != nil {
			return err
		}
		if at == id {
			break
		}
	}
	now, err := r.RemoteHead(ctx, rm)
	if err != nil {
		return fmt.Errorf("look after the push: %w", err)
	}
	if now != id {
		return faultf(ReasonForeign, "push to %s: its head is %s after the push, not %s: %w", rm.Name, now.Short(), id.Short(), mesh.ErrConflict)
	}
	return r.setRef(remoteRef(rm.Name), id)
}

// PushBranch makes a new branch at a remote, such as one that keeps what
// somebody else wrote. A branch of that name that is elsewhere is ErrConflict.
func (r *Repo) PushBranch(ctx context.Context, rm Remote, branch string, id ID, allow Allow) error {
	if !safePath(branch) {
		return fmt.Errorf("repo: branch %s: not a name: %w", quote(branch), mesh.ErrInvalid)
	}
	for {
		at, err := r.push(ctx, rm, "refs/heads/"+branch, id, id, allow)
		if err != nil || at == id {
			return err
		}
	}
}

// PushTag makes a tag, made by Tag, at a remote. One of that name that is
// another is ErrConflict.
func (r *Repo) PushTag(ctx context.Context, rm Remote, name string, allow Allow) error {
	tag := r.ref("refs/tags/" + name)
	if !safePath(name) || tag == "" {
		return fmt.Errorf("repo: no tag %s: %w", quote(name), mesh.ErrNotFound)
	}
	on, err := r.peel(tag)
	if err != nil {
		return err
	}
	_, err = r.push(ctx, rm, "refs/tags/"+name, tag, on, allow)
	return err
}
