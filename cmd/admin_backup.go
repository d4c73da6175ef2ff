package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newAdminBackup(a *adminCLI) *cobra.Command {
	c := group("backup", "The state of the mesh in Git, and its history",
		newBackupStatus(a),
		newBackupRun(a),
		newBackupVerify(a),
		newBackupSet(a),
		newBackupRemote(a),
		newBackupRecipient(a),
		newBackupLog(a),
		newBackupDiff(a),
		newBackupRevert(a),
	)
	c.Long = `The state of the mesh is kept in Git repositories: one file per object, what is
private encrypted to the recipients you name. From one of them, an identity of a
recipient and the root passphrase the mesh comes back when every server is lost:
meshctl mgmt restore.

First: a recipient, then a remote, then "meshctl admin backup run --wait" and
"meshctl admin backup verify --wait".`
	return c
}

func newBackupStatus(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how backups go, and whether they restore", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.BackupGet, admin.None{})
			if err != nil {
				return err
			}
			switch {
			case s.format.structured():
				return s.format.print(s.out(), v)
			case s.format == outputName:
				return printList(s.out(), s.format, remoteNoun(), admin.List[backupRemote]{Items: remotesOf(v)}, s.now)
			}
			return printBackup(s.out(), v, s.now)
		}),
	}
}

// printBackup writes what a person wants to know at one glance, warnings last.
func printBackup(w io.Writer, v admin.BackupView, now time.Time) error {
	err := printList(w, outputTable, remoteNoun(), admin.List[backupRemote]{Items: remotesOf(v)}, now)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := printFields(w, backupFields(v, now)); err != nil {
		return err
	}
	for i, warning := range v.Warnings {
		if i == 0 {
			fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintln(w, "warning:", clean(warning)); err != nil {
			return err
		}
	}
	return nil
}

func backupFields(v admin.BackupView, now time.Time) []field {
	set, st := v.Settings, v.State
	return []field{
		{"Last commit", lastCommit(st, now)},
		{"Held back", st.Held},
		{"Proof", proofState(st.Proof, now)},
		{"Recipients", recipientsLine(set.Recipients)},
		{"Private data", privateLine(set)},
		{"Full copies", copiesLine(set.Copies, st.Copy, now)},
		{"Commits signed", signedLine(set.SignPublic)},
		{"Rhythm", fmt.Sprintf("a commit at most every %s, a tag every %s, a proof at most every %s, traffic totals every %s",
			shortDuration(time.Duration(set.Every)), shortDuration(time.Duration(set.Heartbeat)),
			shortDuration(time.Duration(set.ProveEvery)), shortDuration(time.Duration(set.TotalsEvery)))},
		{"Made by", string(st.Leader)},
		{"Mesh", string(v.Mesh)},
		{"Root", v.Root},
	}
}

func lastCommit(st mesh.BackupState, now time.Time) string {
	if st.Commit == "" {
		return "never"
	}
	return fmt.Sprintf("%s, %s, of revision %d", shortCommit(st.Commit), at(st.Committed, now), st.Revision)
}

func shortCommit(c string) string { return c[:min(12, len(c))] }

// proofState says when a backup was last restored to see that it can be.
func proofState(p mesh.BackupProofState, now time.Time) string {
	switch {
	case p.At.IsZero():
		return "NEVER: nobody knows whether the backup restores"
	case p.Problem != "":
		return fmt.Sprintf("FAILED %s: %s", at(p.At, now), p.Problem)
	}
	return fmt.Sprintf("%s restored %s in %v, %d objects equal", shortCommit(p.Commit), at(p.At, now), time.Duration(p.Took).Round(time.Millisecond), p.Objects)
}

func recipientsLine(all []admin.BackupRecipientView) string {
	var out []string
	for _, r := range all {
		if r.Protected {
			out = append(out, r.Name+" (passphrase)")
		} else {
			out = append(out, r.Name)
		}
	}
	if len(out) == 0 {
		return "NONE"
	}
	return strings.Join(out, ", ")
}

func privateLine(set admin.BackupSettingsView) string {
	switch {
	case len(set.Recipients) == 0:
		return "left out, since nobody could read it"
	case set.PlaintextObjects:
		return "secrets encrypted; names, contacts and addresses in plain text"
	}
	return "encrypted"
}

func copiesLine(c mesh.BackupCopies, st mesh.BackupCopyState, now time.Time) string {
	switch {
	case c.Dir == "":
		return "none"
	case st.At.IsZero():
		return "none yet, to go to " + c.Dir
	}
	return fmt.Sprintf("%d in %s, the last %s, %s", st.Count, c.Dir, at(st.At, now), size(st.Bytes))
}

func signedLine(public string) string {
	if public == "" {
		return "no (manifests are, always)"
	}
	return "with " + public
}

// backupRemote is a remote with how its pushes go.
type backupRemote struct {
	admin.BackupRemoteView
	State mesh.BackupRemoteState `json:"state"`
}

func remotesOf(v admin.BackupView) []backupRemote {
	out := []backupRemote{}
	for _, r := range v.Settings.Remotes {
		out = append(out, backupRemote{r, v.State.Remote(r.Name)})
	}
	return out
}

// saidBackup reports a change of the settings, and warns where it can be seen.
func saidBackup(s *adminSession, v admin.BackupView, format string, args ...any) error {
	warned(s, v)
	if s.format.structured() {
		return s.format.print(s.out(), v)
	}
	return s.say(format, args...)
}

func warned(s *adminSession, v admin.BackupView) {
	for _, w := range v.Warnings {
		fmt.Fprintln(s.err(), "warning:", clean(w))
	}
}

// backupNames lists names in the settings for shell completion.
func backupNames(names func(admin.BackupView) []string) refsFunc {
	return func(ctx context.Context, s *adminSession) ([]string, error) {
		v, err := ask(ctx, s, admin.BackupGet, admin.None{})
		return names(v), err
	}
}

var errBackup = errors.New("the backup is not as it should be")
