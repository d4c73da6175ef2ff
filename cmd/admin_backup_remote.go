package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func remoteNoun() noun[backupRemote] {
	name := func(r backupRemote) string { return r.Name }
	return noun[backupRemote]{
		one: "remote", many: "remotes",
		empty: "add one with `meshctl admin backup remote add NAME URL`",
		id:    name, label: name,
		refs: backupNames(namesOfRemotes),
		columns: []column[backupRemote]{
			text("REMOTE", name),
			{"LAST PUSH", func(r backupRemote, now time.Time) string { return orText(age(r.State.Pushed, now), "never") }},
			text("HEAD", func(r backupRemote) string { return shortCommit(r.State.Head) }),
			text("FAILURES", func(r backupRemote) string { return failuresOf(r.State) }),
			text("CONFLICT", conflictOf),
			text("BRANCH", func(r backupRemote) string { return r.Branch }),
			text("LOGIN", func(r backupRemote) string { return string(r.Auth) }),
			text("URL", func(r backupRemote) string { return r.URL }),
		},
	}
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func conflictOf(r backupRemote) string {
	if r.State.Conflict == r.Settled {
		return ""
	}
	return r.State.Conflict
}

func failuresOf(r mesh.BackupRemoteState) string {
	if r.Failures == 0 {
		return "0"
	}
	return fmt.Sprintf("%d: %s", r.Failures, r.Reason)
}

func newBackupRemote(a *adminCLI) *cobra.Command {
	n := remoteNoun()
	return group("remote", "Git repositories that backups are pushed to",
		newRemoteAdd(a),
		newBackupList(a, n, remotesOf),
		newRemoteSettle(a, n),
		newRemoteRemove(a, n),
	)
}

// newBackupList makes the list leaf of what the settings name.
func newBackupList[T any](a *adminCLI, n noun[T], of func(admin.BackupView) []T) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List " + n.many, Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.BackupGet, admin.None{})
			if err != nil {
				return err
			}
			return printList(s.out(), s.format, n, admin.List[T]{Items: of(v)}, s.now)
		}),
	}
}

// remoteFlags are those of remote add.
type remoteFlags struct {
	login      loginFlags
	branch     string
	user       string
	replace    bool
	knownHosts string
	hostKeys   []string
}

func newRemoteAdd(a *adminCLI) *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use: "add NAME URL", Short: "Push backups to one more repository", Args: takes("NAME", "URL"), ValidArgsFunction: completeArgs(a),
		Long: `Push backups to one more repository. The URL is ssh://, user@host:path, https://,
file:// or an absolute path on the servers, every one of which may be the one that
pushes. Make the repository first, empty and bare; let nobody else write to the branch.

A key or a token comes from a file, is sealed in the store and never shown again. The
key of an SSH host is taken from your known_hosts and enforced from then on.`,
		Example: `  meshctl admin backup remote add forge git@git.example.net:ops/mesh.git --ssh-key deploy.key
  meshctl admin backup remote add web https://git.example.net/ops/mesh.git --user bot --token-file token
  meshctl admin backup remote add disk /srv/backup/mesh.git`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			req, err := f.request(ctx, s, args[0], args[1])
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.BackupRemoteAdd, req)
			if err != nil {
				return err
			}
			if err := saidBackup(s, v, "remote %s added", clean(req.Name)); err != nil || s.format.structured() {
				return err
			}
			return toCheck(s, v, req)
		}),
	}
	f.login.flags(c, "of the servers, not yours")
	fs := c.Flags()
	fs.StringVar(&f.branch, "branch", mesh.DefaultBackupBranch, "branch to push to")
	fs.StringVar(&f.user, "user", "", "name to log in with (default that in the URL, or git)")
	fs.StringVar(&f.knownHosts, "known-hosts", "", "known_hosts file with the keys of the host (default ~/.ssh/known_hosts)")
	fs.StringArrayVar(&f.hostKeys, "host-key", nil, "key of the host, a line of known_hosts; may be repeated")
	fs.BoolVar(&f.replace, "replace", false, "put it in the place of the remote of that name, as for a new key or token; with the same URL, what no flag names stays")
	c.MarkFlagsMutuallyExclusive("known-hosts", "host-key")
	return c
}

func (f *remoteFlags) request(ctx context.Context, s *adminSession, name, url string) (admin.BackupRemoteAddRequest, error) {
	req := admin.BackupRemoteAddRequest{Name: name, URL: url, Branch: f.branch, User: f.user, Replace: f.replace}
	kind, _, err := mesh.ParseRemoteURL(url)
	if err != nil {
		return req, err
	}
	if err := mesh.CheckBackupName(name); err != nil {
		return req, err
	}
	hostGiven := f.knownHosts != "" || len(f.hostKeys) > 0
	if kind != mesh.RemoteSSH && hostGiven {
		return req, usagef("--known-hosts and --host-key serve SSH only")
	}
	kept := false
	if f.replace {
		if kept, err = keepOfRemote(ctx, s, &req); err != nil {
			return req, err
		}
	}
	if !kept || f.login.given() {
		auth, secret, err := f.login.read(ctx, s, kind)
		if err != nil {
			return req, err
		}
		req.Auth, req.Credential = auth, secret.Reveal()
	}
	if kind == mesh.RemoteSSH && (hostGiven || len(req.KnownHosts) == 0) {
		req.KnownHosts, err = hostKeys(url, f.knownHosts, f.hostKeys)
	}
	return req, err
}

// keepOfRemote takes over what no flag changes from the remote of that name, if
// it has the same URL. Its key or token the server keeps.
func keepOfRemote(ctx context.Context, s *adminSession, req *admin.BackupRemoteAddRequest) (bool, error) {
	v, err := ask(ctx, s, admin.BackupGet, admin.None{})
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(v.Settings.Remotes, func(r admin.BackupRemoteView) bool { return r.Name == req.Name && r.URL == req.URL })
	if at < 0 {
		return false, nil
	}
	old := v.Settings.Remotes[at]
	req.Auth, req.KnownHosts = old.Auth, old.KnownHosts
	if !s.cmd.Flags().Changed("branch") {
		req.Branch = old.Branch
	}
	if !s.cmd.Flags().Changed("user") {
		req.User = old.User
	}
	return true, nil
}

// loginFlags say how a repository is logged in to.
type loginFlags struct {
	sshKey    string
	agent     bool
	tokenFile string
}

func (f *loginFlags) flags(c *cobra.Command, whose string) {
	fs := c.Flags()
	fs.StringVar(&f.sshKey, "ssh-key", "", "file with the SSH private key to log in with, mode 0600")
	fs.BoolVar(&f.agent, "agent", false, "log in with the SSH agent (SSH_AUTH_SOCK) "+whose)
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the token to log in with over https, mode 0600")
	c.MarkFlagsMutuallyExclusive("ssh-key", "agent", "token-file")
}

func (f *loginFlags) given() bool { return f.sshKey != "" || f.agent || f.tokenFile != "" }

func (f *loginFlags) read(ctx context.Context, s *adminSession, kind mesh.RemoteKind) (mesh.BackupAuth, mesh.Secret, error) {
	switch {
	case f.sshKey != "":
		key, err := readPrivateFile(ctx, "--ssh-key", f.sshKey, s.cmd.InOrStdin(), maxKeyFile)
		return mesh.BackupAuthSSHKey, mesh.Secret(key), err
	case f.tokenFile != "":
		token, err := readSecretFile(ctx, "--token-file", f.tokenFile, s.cmd.InOrStdin())
		return mesh.BackupAuthToken, token, err
	case f.agent:
		return mesh.BackupAuthAgent, "", nil
	case kind == mesh.RemoteSSH:
		return "", "", usagef("nothing to log in with").hint("give --ssh-key FILE (made for this alone: ssh-keygen -t ed25519 -N '' -f FILE) or --agent")
	}
	return mesh.BackupAuthNone, "", nil
}

// toCheck says what only a person can see to.
func toCheck(s *adminSession, v admin.BackupView, req admin.BackupRemoteAddRequest) error {
	var out []string
	for _, r := range v.Settings.Remotes {
		if r.Name != req.Name {
			continue
		}
		if r.Public != "" {
			out = append(out, "let this key write to the repository, and to nothing else:\n    "+r.Public)
		}
		for _, l := range r.KnownHosts {
			out = append(out, "compare the host's key with what its operator publishes:\n    "+fingerprint(l))
		}
		switch r.Auth {
		case mesh.BackupAuthToken:
			out = append(out, "the token needs to write to this repository, and to nothing else; note when it ends")
		case mesh.BackupAuthAgent:
			out = append(out, "the agent has to run on every server, with SSH_AUTH_SOCK in the environment of meshctl")
		case mesh.BackupAuthNone:
			out = append(out, "every server has to reach it, as the user that meshctl runs as there")
		}
	}
	out = append(out,
		"let nobody else write to branch "+clean(req.Branch)+", and forbid that it is deleted or force-pushed",
		"then: meshctl admin backup run --wait && meshctl admin backup verify --wait")
	return s.say("to check:\n  %s", strings.Join(out, "\n  "))
}

func newRemoteSettle(a *adminCLI, n noun[backupRemote]) *cobra.Command {
	return &cobra.Command{
		Use: "settle REMOTE", Short: "End the alarm about a conflict that you have looked at", Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `End the alarm about a conflict that you have looked at: somebody else changed files of
ours in the repository. What he pushed stays in its branch conflict/<time>; our state
was put on top of it.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := ask(ctx, s, admin.BackupRemoteSettle, admin.Ref{Ref: args[0]})
			return orSaid(s, v, err, "conflict at remote "+clean(args[0])+" settled")
		}),
	}
}

func newRemoteRemove(a *adminCLI, n noun[backupRemote]) *cobra.Command {
	return &cobra.Command{
		Use: "remove REMOTE", Aliases: []string{"rm"}, Short: "Stop pushing to a repository", Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		Long: "Stop pushing to a repository. What it holds stays there.",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			d := deed{use: "remove", danger: "Nothing is pushed to it any more; its key or token is forgotten."}
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.BackupRemoteRemove, admin.Ref{Ref: args[0]})
			return orSaid(s, v, err, "remote "+clean(args[0])+" removed; what it holds stays there")
		}),
	}
}
