package bot

import (
	"context"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Actions about backups.
const (
	actBackup       = "b"
	actBackupRun    = "br"
	actBackupVerify = "bv"
)

func opBackups() Routes {
	run := func(ctx context.Context, s *Session, _ []string) error { return runBackup(ctx, s) }
	verify := func(ctx context.Context, s *Session, _ []string) error { return verifyBackup(ctx, s) }
	return Routes{
		Commands: []Command{operates("backup", func(ctx context.Context, s *Session, rest string) error {
			switch rest {
			case "":
				return showBackup(ctx, s, "")
			case "run":
				return runBackup(ctx, s)
			case "verify":
				return verifyBackup(ctx, s)
			}
			return usage(ctx, s, "backup")
		})},
		Actions: []Action{
			looks(actBackup, func(ctx context.Context, s *Session, _ []string) error { return showBackup(ctx, s, "") }),
			deed(actBackupRun, run), deed(actBackupVerify, verify),
		},
	}
}

func runBackup(ctx context.Context, s *Session) error {
	_, err := Call(ctx, s, admin.BackupRun, admin.None{})
	return s.after(err, "asked-run", func(note string) error { return showBackup(ctx, s, note) })
}

func verifyBackup(ctx context.Context, s *Session) error {
	_, err := Call(ctx, s, admin.BackupVerify, admin.None{})
	return s.after(err, "asked-verify", func(note string) error { return showBackup(ctx, s, note) })
}

func showBackup(ctx context.Context, s *Session, note string) error {
	v, err := Call(ctx, s, admin.BackupGet, admin.None{})
	if err != nil {
		return err
	}
	var rows [][]Button
	if s.mayChange() && len(v.Settings.Remotes) > 0 {
		rows = append(rows, Row(s.button("run", actBackupRun), s.button("verify", actBackupVerify)))
	}
	rows = append(rows, Row(s.back(actStatus), Button{Label: s.T.Plain("button.refresh"), Action: actBackup}))
	return s.Show(ctx, Screen{Text: noted(note, s.backupText(v)), Rows: rows})
}

// backupAbout is how backups go, in few words.
func (s *Session) backupAbout(v admin.BackupView) (mark, about string) {
	st := v.State
	if len(v.Settings.Remotes) == 0 {
		return s.mark("warn"), s.T.Plain("op.backup.none")
	}
	for _, r := range v.Settings.Remotes {
		if r := st.Remote(r.Name); r.Failures > 0 {
			return s.mark("bad"), s.T.Plain("op.backup.failing", "remote", r.Name, "reason", r.Reason)
		}
	}
	if st.Commit == "" {
		return s.mark("warn"), s.T.Plain("op.backup.never")
	}
	when := s.T.Ago(st.Committed, s.Now)
	switch {
	case st.Proof.At.IsZero():
		return s.mark("warn"), s.T.Plain("op.backup.unproven", "when", when)
	case st.Proof.Problem != "":
		return s.mark("bad"), s.T.Plain("op.backup.broken", "when", when)
	}
	return s.mark("good"), s.T.Plain("op.backup.made", "when", when)
}

func (s *Session) backupText(v admin.BackupView) string {
	t, st := s.T, v.State
	var l lines
	l.add(t.HTML("op.backup.title"))
	l.gap()
	if st.Commit == "" {
		l.add(t.HTML("op.backup.no-commit"))
	} else {
		l.add(t.HTML("op.backup.commit", "when", t.Ago(st.Committed, s.Now), "commit", st.Commit[:min(12, len(st.Commit))]))
	}
	if st.Held != "" {
		l.add(t.HTML("op.backup.held", "reason", st.Held))
	}
	if len(v.Settings.Remotes) == 0 {
		l.add(t.HTML("op.status.backup", "mark", s.mark("warn"), "about", t.Plain("op.backup.none")))
	}
	for _, r := range v.Settings.Remotes {
		l.add(s.remoteLine(st.Remote(r.Name), r.Settled))
	}
	l.add(s.proofLine(st.Proof))
	l.add(s.readersLine(v.Settings.Recipients))
	for _, w := range v.Warnings[:min(len(v.Warnings), maxWarnings)] {
		l.add(t.HTML("op.status.warning", "text", w))
	}
	return l.String()
}

func (s *Session) remoteLine(r mesh.BackupRemoteState, settled string) string {
	mark, about := "good", ""
	switch {
	case r.Conflict != "" && r.Conflict != settled:
		mark, about = "bad", s.T.Plain("op.backup.conflict", "branch", r.Conflict)
	case r.Failures > 0:
		mark, about = "bad", s.T.Plain("op.backup.failed", "n", r.Failures, "reason", r.Reason)
	case r.Pushed.IsZero():
		mark, about = "warn", s.T.Plain("op.backup.never-pushed")
	default:
		about = s.T.Plain("op.backup.pushed", "when", s.T.Ago(r.Pushed, s.Now))
	}
	return s.T.HTML("op.backup.remote", "mark", s.mark(mark), "name", r.Name, "about", about)
}

func (s *Session) proofLine(p mesh.BackupProofState) string {
	switch when := func() string { return s.T.Ago(p.At, s.Now) }; {
	case p.At.IsZero():
		return s.T.HTML("op.backup.proof-never", "mark", s.mark("warn"))
	case p.Problem != "":
		return s.T.HTML("op.backup.proof-failed", "mark", s.mark("bad"), "when", when(), "problem", p.Problem)
	default:
		return s.T.HTML("op.backup.proof", "mark", s.mark("good"), "when", when(), "objects", p.Objects)
	}
}

func (s *Session) readersLine(all []admin.BackupRecipientView) string {
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	if len(names) == 0 {
		return s.T.HTML("op.backup.nobody", "mark", s.mark("bad"))
	}
	return s.T.HTML("op.backup.recipients", "names", strings.Join(names, ", "))
}
