package chores

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Backup is the server's side of backups: what there is to do, what to write, and
// what came of it. The child does the rest, which is Git.
//
//	Lead ─ Order ──▶ child: open, fetch, take in what the remotes hold
//	         Draft ◀── index of the base        (only when due has risen)
//	               ──▶ files, message: commit
//	         Allow ◀── before each push and tag; push, and ask the remote
//	         Prove ◀── files of a fresh clone   (only when prove has risen)
//	         Ended ◀── outcome of the round
//
// Any method may be called from any goroutine. What the child gives is checked for
// form, and no more.
type Backup interface {
	// Lead is called whenever this server takes the office, and returns when ctx
	// ends, which is when the office is given back. What is written to the store
	// under ctx is written as the holder of the office.
	Lead(ctx context.Context) error
	// Order is what the child is to do now; nil: nothing. It waits for nothing.
	// It is asked every two seconds, and after Foreman.Wake.
	Order() *BackupOrder
	// Draft hands put what a commit on top of the base is to change, the manifest
	// last, and returns what the commit is. nil, nil: nothing is to be committed.
	// ErrDenied: the epoch is not this server's.
	Draft(ctx context.Context, base BackupBase, put func(backup.File) error) (*BackupDraft, error)
	// Allow returns ErrDenied unless a quorum confirms that the office is this
	// server's, in that epoch, and ErrUnavailable when it cannot be said.
	Allow(ctx context.Context, epoch BackupEpoch) error
	// Prove restores what the tree holds, compares, and takes note of the result.
	// The tree is gone when it returns.
	Prove(ctx context.Context, p BackupProof, tree backup.Tree)
	// Ended takes note of how a round went. It waits for nothing.
	Ended(out BackupOutcome)
}

// BackupEpoch orders those who may write a backup: the later epoch of the mesh
// goes before, and in the same one the later leader.
type BackupEpoch struct{ Mesh, Leader int64 }

// Compare returns -1 when e is earlier than o, 0 when it is the same, and +1
// when it is later.
func (e BackupEpoch) Compare(o BackupEpoch) int {
	return cmp.Or(cmp.Compare(e.Mesh, o.Mesh), cmp.Compare(e.Leader, o.Leader))
}

// BackupOrder asks for commits, and for keeping them at remotes.
type BackupOrder struct {
	Mesh   mesh.ID
	Root   []byte // certificate of the root, DER: whose backups are ours
	Folder string // for the clone; this server's own
	Epoch  BackupEpoch
	// Due rises when a commit may be needed, and Prove when what the remotes hold
	// is to be proven; both start at 0, which asks for nothing. What is under way
	// goes on when they rise. Any other change of an order ends it, and all begins
	// anew.
	Due, Prove uint64
	Heartbeat  time.Duration // how long there may be no tag; 0: none is made
	Remotes    []BackupRemote
	SignKey    mesh.Secret // SSH key, PEM, that signs commits; "": none does
}

// BackupRemote is where backups go.
type BackupRemote struct {
	Name, URL, Branch, User string
	KnownHosts              []string
	Auth                    mesh.BackupAuth
	Credential              mesh.Secret // the key, PEM, or the token
}

// BackupBase is the commit that the next one is made on.
type BackupBase struct {
	Epoch  BackupEpoch // of the order that the child follows
	Commit string      // "": there is none
	// Files are those of the base that say what it holds: manifest.yaml,
	// manifest.sig and everything under index/.
	Files map[string][]byte
}

// BackupDraft is what the next commit is.
type BackupDraft struct {
	Message  string // without trailers
	Revision int64
	Time     time.Time
	// Full says that it builds on no base (backup.Summary): of the files that are
	// the backup's only those handed out remain.
	Full bool
}

// BackupProof says what a tree is of.
type BackupProof struct {
	Epoch          BackupEpoch
	Remote, Commit string
}

// authKinds are the ways to log in, as they are ordered.
var authKinds = map[mesh.BackupAuth]controlpb.BackupRemote_Auth{
	mesh.BackupAuthNone: controlpb.BackupRemote_NONE, mesh.BackupAuthAgent: controlpb.BackupRemote_AGENT,
	mesh.BackupAuthSSHKey: controlpb.BackupRemote_SSH_KEY, mesh.BackupAuthToken: controlpb.BackupRemote_TOKEN,
}

func (e BackupEpoch) proto() *controlpb.BackupEpoch {
	return &controlpb.BackupEpoch{Mesh: e.Mesh, Leader: e.Leader}
}

func epochOf(e *controlpb.BackupEpoch) BackupEpoch { return BackupEpoch{e.GetMesh(), e.GetLeader()} }

func (o *BackupOrder) proto() *controlpb.BackupOrder {
	if o == nil {
		return nil
	}
	out := &controlpb.BackupOrder{
		Mesh: string(o.Mesh), Root: o.Root, Folder: o.Folder, Epoch: o.Epoch.proto(), Due: o.Due, Prove: o.Prove,
		HeartbeatNanos: int64(o.Heartbeat), SignKey: o.SignKey.Reveal(),
	}
	for _, r := range o.Remotes {
		out.Remotes = append(out.Remotes, &controlpb.BackupRemote{
			Name: r.Name, Url: r.URL, Branch: r.Branch, User: r.User, KnownHosts: r.KnownHosts,
			Auth: authKinds[r.Auth], Credential: r.Credential.Reveal(),
		})
	}
	return out
}

// hide takes the credentials of an order out of a text.
func hide(o *controlpb.BackupOrder, s string) string {
	return conceal(s, append(credentials(o.GetRemotes()), o.GetSignKey())...)
}

// conceal takes secrets out of a text: whole, and each line of those that have
// several.
func conceal(s string, secrets ...string) string {
	var pairs []string
	for _, secret := range secrets {
		for _, part := range append([]string{secret}, strings.Split(secret, "\n")...) {
			if len(part) > 3 && !strings.HasPrefix(part, "-----") {
				pairs = append(pairs, part, "[redacted]")
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

func credentials(remotes []*controlpb.BackupRemote) []string {
	var out []string
	for _, r := range remotes {
		out = append(out, r.GetCredential())
	}
	return out
}
