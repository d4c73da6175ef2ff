package chores

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// maxLooked is how many objects a backup of somebody else's may have for each
	// of its files to be looked at before it is built on. (What is damaged in a
	// larger one the proof finds.)
	maxLooked = 50_000
	// maxBehind is how far it is counted how many commits a remote has yet to get.
	maxBehind = 1_000
)

// remote is one remote of a job.
type remote struct {
	order  *controlpb.BackupRemote
	again  again
	head   repo.ID // what it was last seen to hold
	tagged string  // the newest tag that it is known to have
	err    error   // of this round
	// took says that it answered in this round what it holds.
	took bool
	out  *controlpb.RemoteOutcome // of this round; nil: it was left alone
}

// auths are the ways to log in, the other way round.
var auths = map[controlpb.BackupRemote_Auth]mesh.BackupAuth{
	controlpb.BackupRemote_NONE: mesh.BackupAuthNone, controlpb.BackupRemote_AGENT: mesh.BackupAuthAgent,
	controlpb.BackupRemote_SSH_KEY: mesh.BackupAuthSSHKey, controlpb.BackupRemote_TOKEN: mesh.BackupAuthToken,
}

func (m *remote) repo() repo.Remote {
	return repo.Remote{
		Name: m.order.GetName(), URL: m.order.GetUrl(), Branch: m.order.GetBranch(), User: m.order.GetUser(),
		Auth: auths[m.order.GetAuth()], KnownHosts: m.order.GetKnownHosts(), Credential: mesh.Secret(m.order.GetCredential()),
	}
}

// begin makes it one of a round.
func (m *remote) begin() {
	m.err, m.took, m.out = nil, false, &controlpb.RemoteOutcome{Name: m.order.GetName(), Behind: -1}
}

// take takes in what a remote holds, so that a push is a fast-forward.
func (r *round) take(ctx context.Context, m *remote) error {
	before := r.clone.Known(m.order.GetName())
	head, err := r.clone.Fetch(ctx, m.repo())
	if err != nil {
		return err
	}
	m.head, m.took = head, true
	if head == "" {
		return nil
	}
	held, err := r.manifest(ctx, head)
	if err != nil {
		return local(err)
	}
	if held != nil && (BackupEpoch{held.Epoch, held.Leader}).Compare(epochOf(r.order.GetEpoch())) > 0 {
		return errStale
	}
	if in, err := r.has(ctx, r.clone.Head(), head); in || err != nil {
		return err // the push brings it forward, if it has to be
	}
	switch err := r.ours(ctx, head); {
	case err == nil:
		// One that no longer leads to what it held was set back: what is here
		// stands.
		onward, err := r.has(ctx, head, before)
		if err != nil {
			return err
		}
		if onward {
			if followed, err := r.follow(ctx, head); followed || err != nil {
				return err
			}
		}
	case ctx.Err() != nil:
		return ctx.Err()
	case whole(err): // it is the clone, and says nothing about the remote
		return err
	}
	return r.integrate(ctx, m)
}

// has says whether old is in the history of id.
func (r *round) has(ctx context.Context, id, old repo.ID) (bool, error) {
	if id == "" || old == "" {
		return old == "", nil
	}
	in, err := r.clone.Contains(ctx, id, old)
	return in, local(err)
}

// follow makes a remote's head, which is ours, that of the clone, unless a remote
// holds anything that is not in its history. What was committed here and pushed
// nowhere is left: the next draft says it again.
func (r *round) follow(ctx context.Context, to repo.ID) (bool, error) {
	for _, m := range r.remotes {
		if known := r.clone.Known(m.order.GetName()); known != to {
			if in, err := r.has(ctx, to, known); !in || err != nil {
				return false, err
			}
		}
	}
	r.renew()
	return true, local(r.clone.Follow(ctx, to))
}

// integrate merges.
func (r *round) integrate(ctx context.Context, m *remote) error {
	g := repo.Integrator{
		Ours: func(ctx context.Context, t *repo.Tree) error { return r.ours(ctx, t.Commit) },
		When: time.Now(), Allow: r.allow,
		Meta: repo.Meta{SignKey: mesh.Secret(r.order.GetSignKey()), Trailers: []repo.Trailer{{Key: repo.TrailerEpoch, Value: epochText(r.order.GetEpoch())}}},
	}
	in, err := g.Integrate(ctx, r.clone, m.repo())
	if err != nil {
		return err
	}
	m.head = in.Remote
	m.out.Conflict = in.Branch
	m.out.Merged = in.Outcome == repo.OutcomeMerged
	r.renew()
	return nil
}

// renew has a draft made for a head that became the clone's, in a later round if
// it fails in this one.
func (r *round) renew() { r.anew, r.drafted = true, 0 }

// manifest is that of a commit when the mesh has signed it, and nil otherwise.
func (r *round) manifest(ctx context.Context, id repo.ID) (*backup.Manifest, error) {
	if id == "" {
		return nil, nil
	}
	if m, ok := r.signed[id]; ok {
		return m, nil
	}
	t, err := r.clone.Tree(id)
	if err != nil {
		return nil, err
	}
	m, _, err := backup.ManifestOf(ctx, t, r.believed())
	switch {
	case err == nil:
	case repo.ReasonOf(err) == repo.ReasonDamaged, repo.ReasonOf(err) == repo.ReasonDiskFull, ctx.Err() != nil:
		return nil, err
	default:
		m = nil
	}
	r.signed[id] = m
	return m, nil
}

// ours returns why what a commit holds is no whole backup of this mesh.
func (r *round) ours(ctx context.Context, id repo.ID) error {
	m, err := r.manifest(ctx, id)
	if err != nil {
		return err
	}
	if m == nil {
		return fmt.Errorf("chores: commit %s is not signed by this mesh: %w", id.Short(), mesh.ErrDenied)
	}
	if m.Objects > maxLooked {
		return nil
	}
	t, err := r.clone.Tree(id)
	if err != nil {
		return err
	}
	_, err = backup.Read(ctx, t, nil, r.believed())
	return err
}

// believed says which backups are those of this mesh.
func (r *round) believed() backup.ReadOptions {
	return backup.ReadOptions{Root: sha256.Sum256(r.order.GetRoot()), Mesh: mesh.ID(r.order.GetMesh()), Public: true}
}

// allow is asked right before anything at a remote is changed.
func (r *round) allow(ctx context.Context) error {
	err := allowed(ctx, r.server, r.order.GetEpoch())
	switch {
	case errors.Is(err, mesh.ErrDenied):
		return class(controlpb.BackupOutcome_DENIED, err)
	default:
		return class(controlpb.BackupOutcome_DRAFT, err)
	}
}

// push brings a remote to the head of the clone, and tags it when it is time. It
// returns true when somebody else was faster.
func (r *round) push(ctx context.Context, m *remote) (faster bool, err error) {
	head := r.clone.Head()
	if head == "" {
		return false, nil
	}
	if m.head != head {
		if err := r.clone.Push(ctx, m.repo(), head, r.allow); err != nil {
			return failureClass(err) == controlpb.BackupOutcome_NOT_FAST_FORWARD, err
		}
		m.head = head
	}
	return false, r.tag(ctx, m)
}

// tag says that backups go on though nothing changes: one tag in each period, by
// whoever comes first.
func (r *round) tag(ctx context.Context, m *remote) error {
	every := time.Duration(r.order.GetHeartbeatNanos())
	if every <= 0 {
		return nil
	}
	name := tagName(time.Now(), every)
	if m.tagged == name {
		return nil
	}
	meta := repo.Meta{
		Message: "Backups go on.", When: time.Now(), SignKey: mesh.Secret(r.order.GetSignKey()),
		Trailers: []repo.Trailer{{Key: repo.TrailerEpoch, Value: epochText(r.order.GetEpoch())}},
	}
	if _, ok := r.tags[name]; !ok {
		if _, err := r.clone.Tag(name, m.head, meta); err != nil {
			return local(err)
		}
		r.tags[name] = struct{}{}
	}
	err := r.clone.PushTag(ctx, m.repo(), name, r.allow)
	switch {
	case err == nil:
		m.out.Tag = name
	case failureClass(err) != controlpb.BackupOutcome_NOT_FAST_FORWARD: // somebody was first
		return err
	}
	m.tagged = name
	return nil
}

// tagName is that of the period that a time is in.
func tagName(t time.Time, every time.Duration) string {
	form := time.DateOnly
	if every < 24*time.Hour {
		form = "2006-01-02T150405Z"
	}
	return "backup/" + t.UTC().Truncate(every).Format(form)
}
