package backups

import (
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// alarmAfter is how many failures in a row are worth an alarm.
const alarmAfter = 3

// alarms are those that stand: what is wrong, by what it is wrong with.
type alarms map[string]string

// conflict begins the names of alarms about what somebody else pushed.
const conflict = "conflict/"

// Advice for the alarms.
const (
	adviceFailed   = "meshctl admin backup status says why; docs/runbook/backup.md what to do"
	adviceConflict = "look at the branch: somebody else writes to the repository; docs/runbook/backup.md"
	adviceProof    = "do not rely on this backup before it is mended: meshctl admin backup verify --wait; docs/runbook/backup.md"
)

// found are the alarms that a state gives reason for.
func found(st mesh.BackupState, set mesh.BackupSettings) alarms {
	out := alarms{}
	for _, r := range st.Remotes {
		if r.Failures >= alarmAfter {
			out["remote/"+r.Name] = r.Reason
		}
		if r.Conflict != "" {
			out[conflict+r.Name] = r.Conflict
		}
	}
	if len(set.Remotes) > 0 && st.Held != "" {
		out["held"] = st.Held
	}
	if st.Proof.Problem != "" {
		out["proof"] = st.Proof.Problem
	}
	if st.Copy.Problem != "" {
		out["copy"] = st.Copy.Problem
	}
	return out
}

// alarmsOf are those that an earlier leader has raised already.
func alarmsOf(st mesh.BackupState) alarms {
	return found(st, mesh.BackupSettings{Remotes: make([]mesh.BackupRemote, len(st.Remotes))})
}

// judge returns the events about what has changed, and the alarms that stand
// from then on.
func (a alarms) judge(st mesh.BackupState, set mesh.BackupSettings) ([]mesh.Event, alarms) {
	next := found(st, set)
	var out []mesh.Event
	for what, why := range next {
		if a[what] == "" || strings.HasPrefix(what, conflict) && a[what] != why {
			out = append(out, event(what, why))
		}
	}
	for what := range a {
		if next[what] == "" {
			out = append(out, mesh.Event{Type: mesh.EventBackupRecovered, Severity: mesh.Info, Object: "backup/" + what, Cause: "it is as it should be again"})
		}
	}
	return out, next
}

func event(what, why string) mesh.Event {
	e := mesh.Event{Type: mesh.EventBackupFailed, Severity: mesh.Warning, Object: "backup/" + what, Cause: why, Advice: adviceFailed}
	switch {
	case strings.HasPrefix(what, conflict):
		e.Type, e.Severity, e.Advice = mesh.EventBackupConflict, mesh.Critical, adviceConflict
		e.Cause = fmt.Sprintf("somebody else changed our files in the repository; what they pushed is kept in branch %s", why)
	case what == "proof":
		e.Type, e.Severity, e.Advice = mesh.EventBackupUnproven, mesh.Critical, adviceProof
	}
	return e
}

// Problems are what somebody should look at, in words, for status.
func Problems(st mesh.BackupState, set mesh.BackupSettings) []string {
	var out []string
	for _, r := range st.Remotes {
		if r.Failures > 0 {
			out = append(out, fmt.Sprintf("backup: remote %s: failed %d times in a row: %s", r.Name, r.Failures, r.Reason))
		}
		if r.Conflict != "" {
			out = append(out, fmt.Sprintf("backup: remote %s: somebody else changed our files; they are in branch %s", r.Name, r.Conflict))
		}
	}
	if len(set.Remotes) == 0 {
		return out
	}
	if len(set.Recipients) == 0 {
		out = append(out, "backup: there are no recipients, so nothing private is in it: it restores no mesh")
	}
	if st.Held != "" {
		out = append(out, "backup: held back: "+st.Held)
	}
	switch {
	case st.Proof.At.IsZero():
		out = append(out, "backup: never proven to restore")
	case st.Proof.Problem != "":
		out = append(out, "backup: the last proof failed: "+st.Proof.Problem)
	}
	if st.Copy.Problem != "" {
		out = append(out, "backup: full copy: "+st.Copy.Problem)
	}
	return out
}
