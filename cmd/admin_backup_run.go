package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	backupTick = time.Second
	// backupPatience is how long --wait waits.
	backupPatience = 15 * time.Minute
)

func newBackupRun(a *adminCLI) *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use: "run", Short: "Make a backup now", Args: takes(),
		Long: `Make a backup now, also when nothing changed, instead of waiting for the next change.
With --wait the command ends when every remote holds it, and with an error when one
does not take it.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			before, err := ask(ctx, s, admin.BackupGet, admin.None{})
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.BackupRun, admin.None{})
			if err != nil || !wait {
				return orSaid(s, v, err, "backup asked for; see `meshctl admin backup status`")
			}
			v, err = awaitBackup(ctx, s, func(v admin.BackupView) bool { return pushed(before.State, v) })
			if err != nil {
				return err
			}
			warned(s, v)
			if err := failedPushes(v); err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), v)
			}
			return s.say("backup made: commit %s is at %s", shortCommit(v.State.Commit), listOf(namesOfRemotes(v)))
		}),
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until every remote holds it")
	return c
}

func orSaid(s *adminSession, v admin.BackupView, err error, text string) error {
	if err != nil {
		return err
	}
	return saidBackup(s, v, "%s", text)
}

func namesOfRemotes(v admin.BackupView) []string {
	var out []string
	for _, r := range v.Settings.Remotes {
		out = append(out, r.Name)
	}
	return out
}

// pushed says whether the backup asked for was tried at every remote.
func pushed(before mesh.BackupState, v admin.BackupView) bool {
	for _, r := range v.Settings.Remotes {
		was, now := before.Remote(r.Name), v.State.Remote(r.Name)
		failed := now.Failures > 0 && now.Failed.After(was.Failed)
		if done := v.State.Ran >= v.Settings.Run && now.Failures == 0 && !now.Pushed.IsZero(); !done && !failed {
			return false
		}
	}
	return true
}

func failedPushes(v admin.BackupView) error {
	for _, r := range v.Settings.Remotes {
		if now := v.State.Remote(r.Name); now.Failures > 0 {
			return mesh.WithHint(fmt.Errorf("remote %s did not take it: %s: %w", r.Name, clean(now.Reason), errBackup),
				"it is tried again by itself; see `meshctl admin backup status`")
		}
	}
	return nil
}

// awaitBackup looks until done says so. It says once what it waits for.
func awaitBackup(ctx context.Context, s *adminSession, done func(admin.BackupView) bool) (admin.BackupView, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, backupPatience, mesh.WithHint(
		fmt.Errorf("not done after %v: %w", backupPatience, mesh.ErrUnavailable), "it goes on without this command; see `meshctl admin backup status`"))
	defer cancel()
	said := ""
	for {
		v, err := ask(ctx, s, admin.BackupGet, admin.None{})
		switch {
		case err == nil && done(v):
			return v, nil
		case err != nil && mesh.Kind(err) != mesh.ErrUnavailable:
			return v, err
		case err == nil && waitsFor(v) != "" && waitsFor(v) != said:
			said = waitsFor(v)
			fmt.Fprintln(s.err(), "waiting:", clean(said))
		}
		t := time.NewTimer(backupTick)
		select {
		case <-ctx.Done():
			t.Stop()
			return v, context.Cause(ctx)
		case <-t.C:
		}
	}
}

// waitsFor is what keeps backups from going on, "" when nothing does.
func waitsFor(v admin.BackupView) string {
	if v.State.Held != "" {
		return v.State.Held
	}
	var out []string
	for _, r := range v.State.Remotes {
		if r.Failures > 0 {
			out = append(out, "remote "+r.Name+": "+r.Reason)
		}
	}
	return strings.Join(out, "; ")
}

func newBackupVerify(a *adminCLI) *cobra.Command {
	var wait bool
	from := &backupSource{}
	c := &cobra.Command{
		Use: "verify", Short: "Prove that the backup restores", Args: takes(),
		Long: `Have the server that makes backups fetch the newest one from a remote, restore it
into a throw-away etcd and compare it object by object.

With --from this is done here instead, without any server: the repository is read,
every signature and digest is checked, and everything is decrypted with your own
identity. That is what a restore will need, so do it once in a while with the
identity from your safe.`,
		Example: `  meshctl admin backup verify --wait
  meshctl admin backup verify --from git@git.example.net:ops/mesh.git --ssh-key deploy.key --identity safe.key --root SHA256`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			if from.url != "" {
				return verifyHere(ctx, s, from)
			}
			if err := from.unused(s); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.BackupVerify, admin.None{})
			if err != nil || !wait {
				return orSaid(s, v, err, "proof asked for; see `meshctl admin backup status`")
			}
			want := v.Settings.Verify
			v, err = awaitBackup(ctx, s, func(v admin.BackupView) bool { return v.State.Verified >= want })
			if err != nil {
				return err
			}
			warned(s, v)
			if p := v.State.Proof; p.Problem != "" {
				return mesh.WithHint(fmt.Errorf("the backup does not restore: %s: %w", clean(p.Problem), errBackup), "see docs/runbook/backup.md")
			}
			if s.format.structured() {
				return s.format.print(s.out(), v)
			}
			return s.say("proven: %s", proofState(v.State.Proof, time.Now()))
		}),
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait for the outcome")
	from.flags(a, c)
	from.identityFlag(c)
	return c
}
