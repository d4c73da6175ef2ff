package chores

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
)

// BackupOutcome is how a round went.
type BackupOutcome struct {
	Due       uint64 // of the order when the round began
	Commit    string // the head of the clone; "": there is none
	Revision  int64  // of that commit
	Committed bool   // it was made in this round
	Recloned  bool   // the clone was damaged, and begun anew
	Failure   BackupFailure
	Remotes   []RemoteOutcome
	Proof     *ProofOutcome // when one was ordered
}

// RemoteOutcome is how a remote was found and left.
type RemoteOutcome struct {
	Name     string
	Failure  BackupFailure
	Head     string    // what the remote holds, when that is ours; "": not known
	Revision int64     // of that backup
	Time     time.Time // of that backup
	Behind   int64     // commits that it has yet to get; -1: not known
	Tag      string    // pushed in this round
	Merged   bool      // commits of others that left our files alone
	Conflict string    // the branch that keeps commits of others that did not
	HostKey  string    // with FailHostKey: fingerprint of the key that was shown
}

// ProofOutcome says that a proof was done, or why nothing was handed over.
type ProofOutcome struct {
	Prove          uint64 // of the order when it began
	Remote, Commit string
	Failure        BackupFailure
}

// BackupFailure is why something about a backup failed, as a word for metrics
// and state; "" is no failure.
type BackupFailure string

// The failures.
const (
	FailOther       BackupFailure = "other"
	FailName        BackupFailure = "name"
	FailConnection  BackupFailure = "connection"
	FailCertificate BackupFailure = "certificate"
	FailHostKey     BackupFailure = "host-key"
	FailAuth        BackupFailure = "auth"
	FailMissing     BackupFailure = "missing"
	FailRefused     BackupFailure = "refused"
	FailOvertaken   BackupFailure = "not-fast-forward"
	FailTimeout     BackupFailure = "timeout"
	FailDiskFull    BackupFailure = "disk-full"
	FailDamaged     BackupFailure = "damaged"
	FailStale       BackupFailure = "stale"
	FailDenied      BackupFailure = "denied"
	FailDraft       BackupFailure = "draft"
	FailClone       BackupFailure = "clone"
	FailNoGit       BackupFailure = "no-git"
)

// failures are all of them, as the child sends them, with their texts.
var failures = map[controlpb.BackupOutcome_Failure]struct {
	word BackupFailure
	text string
}{
	controlpb.BackupOutcome_NONE:             {"", ""},
	controlpb.BackupOutcome_OTHER:            {FailOther, "it could not be done"},
	controlpb.BackupOutcome_NAME:             {FailName, "the host's name was not resolved"},
	controlpb.BackupOutcome_CONNECTION:       {FailConnection, "no connection, or it was lost"},
	controlpb.BackupOutcome_CERTIFICATE:      {FailCertificate, "no TLS with a certificate to trust"},
	controlpb.BackupOutcome_HOST_KEY:         {FailHostKey, "the host showed a key that is not among its known ones"},
	controlpb.BackupOutcome_AUTH:             {FailAuth, "the remote did not accept the credential"},
	controlpb.BackupOutcome_MISSING:          {FailMissing, "there is no such repository"},
	controlpb.BackupOutcome_REFUSED:          {FailRefused, "the remote refused the push: a hook, or a protected branch"},
	controlpb.BackupOutcome_NOT_FAST_FORWARD: {FailOvertaken, "somebody else pushed at the same time"},
	controlpb.BackupOutcome_TIMEOUT:          {FailTimeout, "no progress for too long"},
	controlpb.BackupOutcome_DISK_FULL:        {FailDiskFull, "the disk of this server is full"},
	controlpb.BackupOutcome_DAMAGED:          {FailDamaged, "what the remote holds cannot be read"},
	controlpb.BackupOutcome_STALE:            {FailStale, "the remote holds a backup of a later epoch"},
	controlpb.BackupOutcome_DENIED:           {FailDenied, "this server no longer leads"},
	controlpb.BackupOutcome_DRAFT:            {FailDraft, "the server could not say what to do"},
	controlpb.BackupOutcome_CLONE:            {FailClone, "the clone on this server cannot be used"},
	controlpb.BackupOutcome_NO_GIT:           {FailNoGit, "the program git is needed for this remote and is not installed here"},
}

// BackupFailures are all words of failures, sorted.
func BackupFailures() []BackupFailure {
	var out []BackupFailure
	for _, f := range failures {
		if f.word != "" {
			out = append(out, f.word)
		}
	}
	slices.Sort(out)
	return out
}

// Text says in words what failed; "" for no failure.
func (f BackupFailure) Text() string {
	for _, known := range failures {
		if known.word == f {
			return known.text
		}
	}
	return string(f)
}

func failureOf(f controlpb.BackupOutcome_Failure) BackupFailure {
	if known, ok := failures[f]; ok {
		return known.word
	}
	return FailOther
}

// refName is what the child calls branches and tags, and hostKey what a
// fingerprint is: nothing else gets through.
var (
	refName = regexp.MustCompile(`^(conflict|backup)/[0-9A-Za-z._-]{1,60}$`)
	hostKey = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}=?$`)
)

// outcomeOf reads an outcome. What is not of its form is left out, and so is a
// remote that the order does not name.
func outcomeOf(out *controlpb.BackupOutcome, ordered *controlpb.BackupOrder) BackupOutcome {
	named := func(name string) bool {
		return slices.ContainsFunc(ordered.GetRemotes(), func(r *controlpb.BackupRemote) bool { return r.GetName() == name })
	}
	got := BackupOutcome{
		Due: min(out.GetDue(), ordered.GetDue()), Commit: commitOf(out.GetCommit()), Revision: out.GetRevision(),
		Committed: out.GetCommitted(), Recloned: out.GetRecloned(), Failure: failureOf(out.GetFailure()),
	}
	for _, r := range out.GetRemotes() {
		if !named(r.GetName()) {
			continue
		}
		got.Remotes = append(got.Remotes, RemoteOutcome{
			Name: r.GetName(), Failure: failureOf(r.GetFailure()), Head: commitOf(r.GetHead()), Revision: r.GetRevision(),
			Time: timeOf(r.GetTimeUnixNanos()), Behind: r.GetBehind(), Tag: only(refName, r.GetTag()), Merged: r.GetMerged(),
			Conflict: only(refName, r.GetConflict()), HostKey: only(hostKey, r.GetHostKey()),
		})
	}
	if p := out.GetProof(); p != nil && named(p.GetRemote()) {
		got.Proof = &ProofOutcome{
			Prove: min(p.GetProve(), ordered.GetProve()), Remote: p.GetRemote(), Commit: commitOf(p.GetCommit()), Failure: failureOf(p.GetFailure()),
		}
	}
	return got
}

// commitOf returns s if it is the id of a commit, and "" otherwise.
func commitOf(s string) string {
	if b, err := hex.DecodeString(s); err != nil || len(b) != 20 && len(b) != 32 {
		return ""
	}
	return strings.ToLower(s)
}

func only(form *regexp.Regexp, s string) string {
	if form.MatchString(s) {
		return s
	}
	return ""
}

func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}
