package cmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/backup/repo"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// backupSource is a repository that is read here, at the operator's terminal, and
// what its private part is opened with.
type backupSource struct {
	url        string
	branch     string
	user       string
	login      loginFlags
	knownHosts string
	hostKeys   []string
	root       string
	identities []string
	passphrase bool
	passFile   string
	passFlag   string // that names passFile
}

func (b *backupSource) flags(a *adminCLI, c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.url, "from", "", "repository to read here: a URL, a path, or the name of a remote (default: the first remote)")
	f.StringVar(&b.branch, "branch", "", "branch to read (default that of the remote, or main)")
	f.StringVar(&b.user, "user", "", "name to log in with (default that of the remote or the URL, or git)")
	f.StringVar(&b.knownHosts, "known-hosts", "", "known_hosts file with the keys of the host (default those of the remote, or ~/.ssh/known_hosts)")
	f.StringArrayVar(&b.hostKeys, "host-key", nil, "key of the host, a line of known_hosts; may be repeated")
	f.StringVar(&b.root, "root", "", "SHA-256 of the root certificate that has to stand behind the backup (default: of the mesh you are logged in to)")
	b.login.flags(c, "of yours")
	c.MarkFlagsMutuallyExclusive("known-hosts", "host-key")
	completeFlag(a, c, "from", backupNames(namesOfRemotes))
}

func (b *backupSource) identityFlag(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&b.identities, "identity", nil, "file with the identity of a recipient: of age, or an SSH private key, mode 0600; may be repeated")
	f.BoolVar(&b.passphrase, "passphrase", false, "open the identity that lies in the backup with its passphrase")
	b.passFlag = "passphrase-file"
	f.StringVar(&b.passFile, b.passFlag, "", "file with that passphrase, mode 0600 (default: ask on the terminal)")
}

// unused refuses flags that serve --from only.
func (b *backupSource) unused(s *adminSession) error {
	for _, f := range []string{"branch", "user", "known-hosts", "host-key", "root", "ssh-key", "agent", "token-file", "identity", "passphrase", "passphrase-file"} {
		if s.cmd.Flags().Changed(f) {
			return usagef("--%s serves --from only", f).hint("give --from URL as well")
		}
	}
	return nil
}

// backupHistory is a repository that was read.
type backupHistory struct {
	*repo.Repo
	source *backupSource
	url    string
	opts   backup.ReadOptions
}

// open gets the repository into a private temporary folder that goes with Close.
// depth bounds the commits; 0 gets all. No closed pipe kills the process from then
// on, as "| head" does: the folder would stay.
func (b *backupSource) open(ctx context.Context, s *adminSession, depth int) (*backupHistory, error) {
	signal.Ignore(syscall.SIGPIPE)
	rm := repo.Remote{Name: "source", URL: b.url, Branch: b.branch, User: b.user}
	h := &backupHistory{source: b}
	if b.url == "" || mesh.CheckBackupName(b.url) == nil {
		v, err := ask(ctx, s, admin.BackupGet, admin.None{})
		if err != nil {
			return nil, mesh.WithHint(err, cmp.Or(mesh.Hint(err), "without a server give --from URL"))
		}
		if rm, err = b.known(rm, v); err != nil {
			return nil, err
		}
		if h.opts.Root, err = parseRoot(v.Root); err != nil {
			return nil, err
		}
		h.opts.Mesh = v.Mesh
	}
	if err := b.loginTo(ctx, s, &rm); err != nil {
		return nil, err
	}
	if err := b.trust(&h.opts); err != nil {
		return nil, err
	}
	if isTerminal(s.err()) {
		fmt.Fprintln(s.err(), "reading", clean(rm.URL))
	}
	var err error
	h.url = rm.URL
	h.Repo, err = repo.Clone(ctx, rm, "", depth, repo.Options{Mine: new(backup.Manifest).Ours})
	if err == nil {
		return h, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	return nil, mesh.WithHint(err, cmp.Or(mesh.Hint(err), b.unreadHint(s.cmd, repo.ReasonOf(err))))
}

// unreadHint says what to do about a repository that was not read.
func (b *backupSource) unreadHint(c *cobra.Command, reason repo.Reason) string {
	switch reason {
	case repo.ReasonAuth:
		token := "token-file"
		if c.Flags().Lookup("git-"+token) != nil {
			token = "git-" + token
		}
		return "give --ssh-key FILE, --agent or --" + token + " FILE with what may read the repository"
	case repo.ReasonTLS:
		return "let this machine trust the authority of that certificate, or name a file with it in SSL_CERT_FILE"
	}
	return "look whether the address is right and answers; another remote has the same: the recovery kit names all"
}

// known fills in what the settings say of the remote that is meant.
func (b *backupSource) known(rm repo.Remote, v admin.BackupView) (repo.Remote, error) {
	all := v.Settings.Remotes
	at := 0
	if b.url != "" {
		at = slices.IndexFunc(all, func(r admin.BackupRemoteView) bool { return r.Name == b.url })
	}
	if at < 0 || at >= len(all) {
		err := fmt.Errorf("remote %q: %w", clean(b.url), mesh.ErrNotFound)
		if b.url == "" {
			err = fmt.Errorf("no remote is set: %w", mesh.ErrNotFound)
		}
		return rm, mesh.WithHint(err, "give --from URL, or see `meshctl admin backup remote list`")
	}
	r := all[at]
	rm.URL, rm.KnownHosts = r.URL, r.KnownHosts
	rm.Branch, rm.User = cmp.Or(b.branch, r.Branch), cmp.Or(b.user, r.User)
	return rm, nil
}

// loginTo fills in how the repository is logged in to from here: the key or token
// of the servers never leaves them.
func (b *backupSource) loginTo(ctx context.Context, s *adminSession, rm *repo.Remote) error {
	kind, _, err := mesh.ParseRemoteURL(rm.URL)
	if err != nil {
		return err
	}
	if kind == mesh.RemoteSSH && !b.login.given() && os.Getenv("SSH_AUTH_SOCK") != "" {
		rm.Auth = mesh.BackupAuthAgent
	} else if rm.Auth, rm.Credential, err = b.login.read(ctx, s, kind); err != nil {
		return err
	}
	if kind == mesh.RemoteSSH && (len(rm.KnownHosts) == 0 || b.knownHosts != "" || len(b.hostKeys) > 0) {
		rm.KnownHosts, err = hostKeys(rm.URL, b.knownHosts, b.hostKeys)
	}
	return err
}

// trust settles which root has to stand behind the backup.
func (b *backupSource) trust(opts *backup.ReadOptions) (err error) {
	if b.root != "" {
		opts.Mesh = ""
		opts.Root, err = parseRoot(b.root)
		return err
	}
	if opts.Root != [sha256.Size]byte{} {
		return nil
	}
	node, err := storedAdmin()
	if errors.Is(err, mesh.ErrNotFound) {
		return usagef("which root has to stand behind the backup?").hint("give --root SHA256, as the recovery kit has it (meshctl mgmt recovery-kit)")
	}
	if err != nil {
		return err
	}
	opts.Root, opts.Mesh = sha256.Sum256(node.Root().Raw), node.Identity().Mesh
	return nil
}

// parseRoot reads a SHA-256 in hexadecimal, with colons or without.
func parseRoot(text string) (root [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(text), ":", ""))
	if err != nil || len(b) != len(root) {
		return root, usagef("--root %q: want a SHA-256, 64 hexadecimal digits", mesh.Quotable(text))
	}
	return [sha256.Size]byte(b), nil
}

// keys reads the identities; none when none was named.
func (b *backupSource) keys(ctx context.Context, s *adminSession, tree backup.Tree) ([]backup.Identity, error) {
	var out []backup.Identity
	for _, file := range b.identities {
		text, err := readPrivateFile(ctx, "--identity", file, s.cmd.InOrStdin(), maxKeyFile)
		if err != nil {
			return nil, err
		}
		ids, err := backup.ParseIdentities(text, func() (mesh.Secret, error) { return b.askPassphrase(ctx, file) })
		if err != nil {
			return nil, fmt.Errorf("--identity %s: %w", file, err)
		}
		out = append(out, ids...)
	}
	if b.passphrase && len(b.identities) == 0 {
		return b.protected(ctx, tree)
	}
	return out, nil
}

func (b *backupSource) askPassphrase(ctx context.Context, what string) (mesh.Secret, error) {
	if b.passFile != "" {
		return readSecretFile(ctx, "--"+b.passFlag, b.passFile, os.Stdin)
	}
	if !isTerminal(os.Stdin) {
		return "", usagef("a passphrase is needed for %s, and there is no terminal to ask on", what).hint("give --%s FILE (mode 0600)", b.passFlag)
	}
	return askSecret(ctx, os.Stdin, os.Stderr, "Passphrase of "+what+": ")
}

// protected opens the identities that lie in the backup with one passphrase.
func (b *backupSource) protected(ctx context.Context, tree backup.Tree) ([]backup.Identity, error) {
	all, err := backup.Protected(ctx, tree)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, mesh.WithHint(fmt.Errorf("no identity under a passphrase lies in the backup: %w", mesh.ErrNotFound), "give --identity FILE")
	}
	secret, err := b.askPassphrase(ctx, "the backup")
	if err != nil {
		return nil, err
	}
	var out []backup.Identity
	for _, text := range all {
		ids, err := backup.ParseIdentities(text, func() (mesh.Secret, error) { return secret, nil })
		if errors.Is(err, mesh.ErrDenied) {
			continue // that of another recipient
		}
		if err != nil {
			return nil, err
		}
		out = append(out, ids...)
	}
	if len(out) == 0 {
		return nil, mesh.WithHint(fmt.Errorf("the passphrase opens no identity in the backup: %w", mesh.ErrDenied),
			"it is that of a recipient made with --passphrase, not that of the root; or give --identity FILE")
	}
	return out, nil
}

// read reads a commit whole, with what the identities open: without any, what
// everybody may see.
func (h *backupHistory) read(ctx context.Context, id repo.ID, ids []backup.Identity, audit bool) (*backup.State, error) {
	tree, err := h.Tree(id)
	if err != nil {
		return nil, err
	}
	opts := h.opts
	opts.Public, opts.Audit = len(ids) == 0, audit && len(ids) > 0
	state, err := backup.Read(ctx, tree, ids, opts)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", id.Short(), err)
	}
	return state, nil
}

// manifest is what a commit says of itself, checked.
func (h *backupHistory) manifest(ctx context.Context, id repo.ID) (*backup.Manifest, mesh.ServerID, error) {
	tree, err := h.Tree(id)
	if err != nil {
		return nil, "", err
	}
	return backup.ManifestOf(ctx, tree, h.opts)
}

// resolve finds a commit by what Resolve knows, or a time before now such as 2h.
func (h *backupHistory) resolve(ctx context.Context, s *adminSession, at string) (repo.ID, error) {
	if d, err := mesh.ParseSpan(at); err == nil && len(at) < minCommit {
		return h.Resolve(ctx, s.now.Add(-d).UTC().Format("2006-01-02T15:04:05Z"))
	}
	return h.Resolve(ctx, at)
}

// minCommit digits of a commit are the least that name one.
const minCommit = 7
