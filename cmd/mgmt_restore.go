package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// restoreFlags are those of a restore beside the server's own.
type restoreFlags struct {
	source        backupSource
	at            string
	trustUnsigned bool
	yes           bool
	epoch         int64
	collect       time.Duration
}

// flags have names of their own where the server has a flag of that name.
func (f *restoreFlags) flags(c *cobra.Command) {
	fs, b := c.Flags(), &f.source
	fs.StringVar(&b.url, "from", "", "repository with the backup: a path, or a URL")
	fs.StringVar(&b.branch, "branch", "", "branch to read (default main)")
	fs.StringVar(&f.at, "at", "", "commit, tag or time (RFC 3339, or a day) of the backup (default: the newest)")
	fs.StringVar(&b.root, "root", "", "SHA-256 of the mesh's root certificate, from the recovery kit")
	fs.StringArrayVar(&b.identities, "identity", nil, "file with the identity of a recipient: of age, or an SSH private key, mode 0600; may be repeated (default: the passphrase of one that lies in the backup is asked for)")
	b.passFlag = "identity-passphrase-file"
	fs.StringVar(&b.passFile, b.passFlag, "", "file with the passphrase of the identity, mode 0600 (default: ask on the terminal)")
	fs.StringVar(&b.user, "git-user", "", "name to log in to the repository with (default that of the URL, or git)")
	fs.StringVar(&b.login.sshKey, "ssh-key", "", "file with the SSH private key to log in with, mode 0600")
	fs.BoolVar(&b.login.agent, "agent", false, "log in with the SSH agent (SSH_AUTH_SOCK) of yours")
	fs.StringVar(&b.login.tokenFile, "git-token-file", "", "file with the token to log in with over https, mode 0600")
	fs.StringVar(&b.knownHosts, "known-hosts", "", "known_hosts file with the keys of the host (default ~/.ssh/known_hosts)")
	fs.StringArrayVar(&b.hostKeys, "host-key", nil, "key of the host, a line of known_hosts; may be repeated")
	fs.BoolVar(&f.trustUnsigned, "trust-unsigned", false, "believe a backup whatever its signature; audited")
	fs.Int64Var(&f.epoch, "epoch", 0, "the latest epoch that nodes have seen, when it is later than the repository says")
	fs.DurationVar(&f.collect, "collect", mesh.DefaultCollect, "how long the restored mesh waits for the revocations that its nodes keep before it serves, if not all have come by then")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	c.MarkFlagsMutuallyExclusive("ssh-key", "agent", "git-token-file")
	c.MarkFlagsMutuallyExclusive("known-hosts", "host-key")
	must(c.MarkFlagRequired("from"))
	must(c.MarkFlagRequired("root"))
}

func newMgmtRestore() *cobra.Command {
	cfg := newMgmtConfig()
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore --from REMOTE --identity FILE --root SHA256",
		Short: "Bring the mesh back from a backup after all of its servers are gone",
		Long: `Makes a management server out of a backup in Git, in a data folder that is empty.
The mesh is the same: its root, members, devices, cells, cores, entries and secrets
are those of the backup, so that cores and entries come back without a new token.
This server is new, and the ones of before are removed and their certificates
revoked. The next epoch of the mesh begins, signed by the root: nodes refuse the
servers of before, should one come back.

The whole backup is verified before anything is written: its signature against
--root (on the recovery kit), the digest of every file, every secret. Each fault is
named and nothing is restored then. A plan is shown and asked for. It is refused
while anything answers where a server of the backup was, and in a folder that is in
use. Interrupted, it has made nothing, or the next restore or serve finishes it.

REMOTE is an absolute path, file://, ssh://, git@host:path or https://. Run it as the
user that is to run the server, with the flags or the --config that "mgmt serve" will
have: --passphrase-file is that of the root.`,
		Example: `  meshctl mgmt restore --from git@git.example.net:mesh.git --ssh-key /root/restore.key \
    --known-hosts /root/known_hosts --identity /root/mesh.age --root 5b1c…
  meshctl mgmt restore --from /mnt/mesh.git --at 2026-11-30T07:00:00Z --identity key.age --root 5b1c…`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := loadConfig(c, "mgmt", cfg); err != nil {
				return err
			}
			if err := cfg.prepare(); err != nil {
				return &configError{err}
			}
			return setupError(runRestore(c, cfg, f))
		},
	}
	configFlags(c, "mgmt", cfg)
	f.flags(c)
	return c
}

func runRestore(c *cobra.Command, cfg *mgmtConfig, f restoreFlags) (err error) {
	begun := time.Now()
	root, err := parseRoot(f.source.root)
	if err != nil {
		return err
	}
	if mesh.CheckBackupName(f.source.url) == nil {
		return usagef("--from %q: want an absolute path or a URL", mesh.Quotable(f.source.url)).hint("the recovery kit has those of the remotes")
	}
	if f.collect <= 0 {
		return usagef("--collect %v: want more than 0", f.collect)
	}
	f.source.passphrase = len(f.source.identities) == 0
	got := &fetchedBackup{s: &adminSession{cmd: c, now: begun}}
	defer func() { err = errors.Join(err, got.close()) }()
	r := &mgmt.Restoration{
		Config: cfg.Config, Root: root, Seen: f.epoch, Collect: mesh.Duration(f.collect), Progress: progress(c.ErrOrStderr()),
		Passphrase: func(ctx context.Context) (mesh.Secret, error) { return rootPassphrase(ctx, cfg.PassphraseFile) },
	}
	r.Read = func(ctx context.Context) (*backup.State, error) {
		state, err := got.read(ctx, f)
		r.From, r.Seen = string(got.commit.ID), max(r.Seen, got.epoch)
		return state, err
	}
	r.Confirm = func(_ context.Context, p mgmt.RestorePlan) error {
		if err := showRestore(c.ErrOrStderr(), p, got, begun); err != nil {
			return err
		}
		return confirm(c, f.yes, fmt.Sprintf("Restore this backup as the mesh, in epoch %d?", p.Epoch))
	}
	made, err := r.Run(c.Context())
	if err != nil {
		return err
	}
	return printRestored(c.OutOrStdout(), cfg, made, f.collect, time.Since(begun))
}

// fetchedBackup is a repository that was fetched, and the commit to restore.
type fetchedBackup struct {
	s      *adminSession
	h      *backupHistory // nil before read
	commit repo.Commit
	newer  int       // commits after that one
	newest time.Time // the last of them
	epoch  int64     // of the newest backup there
}

func (b *fetchedBackup) close() error {
	if b.h == nil {
		return nil
	}
	return b.h.Close()
}

// read fetches the repository and reads the backup that was asked for.
func (b *fetchedBackup) read(ctx context.Context, f restoreFlags) (*backup.State, error) {
	depth := 1
	if f.at != "" {
		depth = 0
	}
	var err error
	if b.h, err = f.source.open(ctx, b.s, depth); err != nil {
		return nil, err
	}
	b.h.opts.Unsigned = f.trustUnsigned
	id, err := b.h.resolve(ctx, b.s, f.at)
	if err != nil {
		return nil, err
	}
	if b.commit, err = b.h.Commit(id); err != nil {
		return nil, err
	}
	if err := b.later(ctx); err != nil {
		return nil, err
	}
	tree, err := b.h.Tree(id)
	if err != nil {
		return nil, err
	}
	ids, err := f.source.keys(ctx, b.s, tree)
	if err != nil {
		return nil, err
	}
	opts := b.h.opts
	opts.Audit = true
	state, err := backup.Read(ctx, tree, ids, opts)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", id.Short(), err)
	}
	return state, nil
}

// later looks at what the repository has after the commit.
func (b *fetchedBackup) later(ctx context.Context) error {
	for c, err := range b.h.Log(ctx, "") {
		if err != nil {
			return err
		}
		if c.ID == b.commit.ID || c.When.Before(b.commit.When) {
			break
		}
		if b.newer++; b.newer == 1 {
			b.newest = c.When
		}
	}
	if m, _, err := b.h.manifest(ctx, b.h.Head()); err == nil {
		b.epoch = m.Epoch
	}
	return ctx.Err()
}

// progress tells of each kind of work when it begins, and at most once a second
// how far it is.
func progress(w io.Writer) func(what string, done, of int) {
	var last string
	var at time.Time
	return func(what string, done, of int) {
		if now := time.Now(); what != last || now.Sub(at) >= time.Second {
			last, at = what, now
			if of > 0 {
				what = fmt.Sprintf("%s: %d of %d", what, done, of)
			}
			fmt.Fprintln(w, what)
		}
	}
}
