package backups_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/backups"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestABackupIsMadeWhenSomethingChanged(t *testing.T) {
	w := newWorld(t)
	id := w.member("Mila")
	s := w.server()
	o := s.due(t, 0)
	if !w.mustRound(s, o) {
		t.Fatal("nothing was committed")
	}
	st := w.read()
	if !slices.ContainsFunc(st.Objects, func(o backup.Object) bool { return o.Folder == "members" && o.ID == string(id) }) {
		t.Error("the member is not in the backup")
	}
	if len(st.Audit) == 0 {
		t.Error("no audit records are in the backup")
	}
	if st.Epoch != 1 || st.Leader != o.Epoch.Leader {
		t.Errorf("epoch %d/%d, want 1/%d", st.Epoch, st.Leader, o.Epoch.Leader)
	}
	// The key for proofs was made meanwhile, which is a change too.
	for o = s.Order(); w.mustRound(s, o); o = s.Order() {
	}
	quiet := s.Order().Due
	w.member("Noor")
	o = s.due(t, quiet)
	before := len(w.tree)
	if !w.mustRound(s, o) {
		t.Fatal("the change was not committed")
	}
	if grew := len(w.tree) - before; grew < 2 || grew > 6 {
		t.Errorf("one member more is %d files more", grew)
	}
	w.state("the commit in the state", func(st mesh.BackupState) bool {
		r := st.Remote("r")
		return st.Commit == w.head && r.Head == w.head && !r.Pushed.IsZero() && r.Failures == 0
	})
}

func TestNothingIsOrderedWithoutRemotes(t *testing.T) {
	w := newWorld(t)
	w.settings(func(b *mesh.BackupSettings) { b.Remotes = nil })
	s := w.server()
	w.state("that it was looked", func(st mesh.BackupState) bool { return st.Leader == s.Server })
	if o := s.Order(); o != nil {
		t.Errorf("ordered: %+v", o)
	}
	w.settings(func(b *mesh.BackupSettings) {
		b.Remotes = []mesh.BackupRemote{{Name: "r", URL: "/nowhere", Branch: "main", Auth: mesh.BackupAuthNone}}
	})
	s.due(t, 0)
	w.settings(func(b *mesh.BackupSettings) { b.Remotes = nil })
	until(t, "that the order is taken back", func() (bool, bool) { return true, s.Order() == nil })
}

func TestABackupIsAskedFor(t *testing.T) {
	w := newWorld(t)
	w.settings(func(b *mesh.BackupSettings) { b.Every = mesh.Duration(time.Hour) })
	s := w.server()
	w.mustRound(s, s.due(t, 0))
	due := s.Order().Due
	w.settings(func(b *mesh.BackupSettings) { b.Run = 7 })
	w.mustRound(s, s.due(t, due))
	w.state("that it ran", func(st mesh.BackupState) bool { return st.Ran == 7 })
}

// TestProof: what a remote holds restores, or everybody is told.
func TestProof(t *testing.T) {
	w := newWorld(t)
	w.member("Mila")
	s := w.server()
	w.mustRound(s, s.due(t, 0))
	o := until(t, "an order to prove", func() (*chores.BackupOrder, bool) { o := s.Order(); return o, o.Prove > 0 })
	p := chores.BackupProof{Epoch: o.Epoch, Remote: "r", Commit: w.head}
	s.Prove(t.Context(), p, w.tree)
	st := w.state("a good proof", func(st mesh.BackupState) bool { return !st.Proof.At.IsZero() })
	if st.Proof.Problem != "" || st.Proof.Commit != w.head || st.Proof.Objects < 2 {
		t.Fatalf("proof: %+v", st.Proof)
	}
	if left, err := os.ReadDir(s.Folder); err != nil || len(left) > 0 {
		t.Errorf("the proof left %v (%v)", left, err)
	}

	damaged := backup.Files{}
	maps.Copy(damaged, w.tree)
	var victim string
	for path := range damaged {
		if strings.HasPrefix(path, "members/") && strings.HasSuffix(path, ".age") {
			victim = path
		}
	}
	delete(damaged, victim)
	s.Prove(t.Context(), p, damaged)
	st = w.state("a proof that failed", func(st mesh.BackupState) bool { return st.Proof.Problem != "" })
	if !strings.Contains(st.Proof.Problem, victim) {
		t.Errorf("the problem does not name %s: %s", victim, st.Proof.Problem)
	}
	until(t, "the alarm", func() (bool, bool) { return true, w.events()["backup/proof"] == mesh.EventBackupUnproven })
	s.Prove(t.Context(), p, w.tree)
	until(t, "that it is over", func() (bool, bool) { return true, w.events()["backup/proof"] == mesh.EventBackupRecovered })
}

// TestAProofComparesWithTheMomentOfTheBackup, not with now, and says so when the
// store holds something else than was backed up.
func TestAProofComparesWithTheMomentOfTheBackup(t *testing.T) {
	w := newWorld(t)
	w.member("Mila")
	s := w.server()
	w.mustRound(s, s.due(t, 0))
	id := w.member("Noor") // later than the backup
	p := chores.BackupProof{Epoch: s.Order().Epoch, Remote: "r", Commit: w.head}
	prove := func(ok func(mesh.BackupProofState) bool) {
		t.Helper()
		s.Prove(t.Context(), p, w.tree)
		w.state("the proof", func(st mesh.BackupState) bool { return st.Proof.Commit == w.head && ok(st.Proof) })
	}
	prove(func(p mesh.BackupProofState) bool { return p.Problem == "" })
	// History that is no longer kept: what changed since is left out.
	rev, err := w.st.View(t.Context(), func(tx *store.Tx) error { _, err := store.Get(tx, w.st.Members, id); return err })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.st.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	prove(func(p mesh.BackupProofState) bool { return p.Problem == "" && p.Objects > 0 })
}

func TestTheOfficeIsAskedForBeforeAPush(t *testing.T) {
	w := newWorld(t)
	first := w.server()
	o := first.due(t, 0)
	if err := first.Allow(t.Context(), o.Epoch); err != nil {
		t.Fatalf("the leader may not push: %v", err)
	}
	second := w.server()
	if err := second.Allow(t.Context(), o.Epoch); !errors.Is(err, mesh.ErrDenied) {
		t.Errorf("a server without the office: %v", err)
	}
	first.stop()
	later := second.due(t, 0)
	if later.Epoch.Compare(o.Epoch) <= 0 {
		t.Errorf("the epoch did not rise: %v, then %v", o.Epoch, later.Epoch)
	}
	for what, err := range map[string]error{
		"the former leader":                first.Allow(t.Context(), o.Epoch),
		"the leader, in an earlier epoch":  second.Allow(t.Context(), o.Epoch),
		"the leader, in a later one":       second.Allow(t.Context(), chores.BackupEpoch{Mesh: 1, Leader: later.Epoch.Leader + 1}),
		"the leader, of a later mesh":      second.Allow(t.Context(), chores.BackupEpoch{Mesh: 2, Leader: later.Epoch.Leader}),
		"a draft of the former leader":     drafted(w, first, o),
		"a draft in the epoch of another ": drafted(w, second, o),
	} {
		if !errors.Is(err, mesh.ErrDenied) {
			t.Errorf("%s: %v, want denied", what, err)
		}
	}
	if !w.mustRound(second, later) {
		t.Error("the new leader committed nothing")
	}
	if st := w.read(); st.Leader != later.Epoch.Leader {
		t.Errorf("the backup is of epoch %d, want %d", st.Leader, later.Epoch.Leader)
	}
}

func drafted(w *world, s *server, o *chores.BackupOrder) error {
	_, err := w.round(s, o)
	return err
}

func TestAlarms(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	o := s.due(t, 0)
	w.mustRound(s, o)
	fail := func() {
		s.Ended(chores.BackupOutcome{Due: o.Due, Commit: w.head, Remotes: []chores.RemoteOutcome{{Name: "r", Failure: chores.FailConnection}}})
	}
	fail()
	fail()
	w.state("two failures", func(st mesh.BackupState) bool { return st.Remote("r").Failures == 2 })
	if e := w.events()["backup/remote/r"]; e != "" {
		t.Errorf("alarm after two failures: %s", e)
	}
	fail()
	until(t, "the alarm", func() (bool, bool) { return true, w.events()["backup/remote/r"] == mesh.EventBackupFailed })
	set, err := w.st.Backup.Get(t.Context(), store.BackupKey)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := s.State()
	if got := strings.Join(backups.Problems(st, set.Value), "\n"); !strings.Contains(got, "failed 3 times") || !strings.Contains(got, "never proven") {
		t.Errorf("problems:\n%s", got)
	}
	s.Ended(chores.BackupOutcome{Due: o.Due, Commit: w.head, Remotes: []chores.RemoteOutcome{{Name: "r", Head: w.head, Conflict: "conflict/2026-11-30T08-00-00Z"}}})
	until(t, "that it is over, and the conflict", func() (bool, bool) {
		e := w.events()
		return true, e["backup/remote/r"] == mesh.EventBackupRecovered && e["backup/conflict/r"] == mesh.EventBackupConflict
	})
	// A failure of the whole round is one of every remote that it did not get to.
	s.Ended(chores.BackupOutcome{Due: o.Due, Failure: chores.FailDiskFull})
	w.state("the full disk", func(st mesh.BackupState) bool { return strings.Contains(st.Remote("r").Reason, "disk") })
}

// TestALaterLeaderRaisesNoAlarmTwice: what was raised before stands.
func TestALaterLeaderRaisesNoAlarmTwice(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	o := s.due(t, 0)
	for range 4 {
		s.Ended(chores.BackupOutcome{Due: o.Due, Remotes: []chores.RemoteOutcome{{Name: "r", Failure: chores.FailAuth}}})
	}
	w.state("the failures", func(st mesh.BackupState) bool { return st.Remote("r").Failures == 4 })
	s.stop()
	raised := func() int {
		all, _, err := w.st.Events.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := raised()
	second := w.server()
	w.state("the second server's state", func(st mesh.BackupState) bool { return st.Leader == second.Server && st.Remote("r").Failures == 4 })
	if after := raised(); before == 0 || after != before {
		t.Errorf("%d events, then %d", before, after)
	}
}

func TestWithoutRecipientsNothingSecretIsWritten(t *testing.T) {
	w := newWorld(t)
	w.member("Mila-the-canary")
	w.settings(func(b *mesh.BackupSettings) { b.Recipients = nil })
	s := w.server()
	w.mustRound(s, s.due(t, 0))
	for path, data := range w.tree {
		if strings.HasSuffix(path, ".age") || bytes.Contains(data, []byte("canary")) || bytes.Contains(data, []byte("sealed")) && path != "README.md" {
			t.Errorf("%s is there:\n%s", path, data)
		}
	}
	s.Prove(t.Context(), chores.BackupProof{Epoch: s.Order().Epoch, Remote: "r", Commit: w.head}, w.tree)
	st := w.state("the verdict", func(st mesh.BackupState) bool { return st.Proof.Problem != "" })
	if !strings.Contains(st.Proof.Problem, "recipients") {
		t.Errorf("problem: %s", st.Proof.Problem)
	}
}

func TestFullCopies(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "copies")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd-20200101T000000Z.age", "etcd-20200102T000000Z.age", "etcd-20200103T000000Z.age.part", "mine.txt", "etcd-notes.age"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.settings(func(b *mesh.BackupSettings) {
		b.Copies = mesh.BackupCopies{Dir: dir, Every: mesh.Duration(time.Hour), Keep: 2}
	})
	w.server()
	st := w.state("a copy", func(st mesh.BackupState) bool { return st.Copy.File != "" })
	f, err := os.Open(st.Copy.File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != st.Copy.Bytes {
		t.Errorf("copy: %v, mode %v, size %d, want %d", err, info.Mode(), info.Size(), st.Copy.Bytes)
	}
	r, err := backup.Open(f, w.alice)
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if _, err := plain.ReadFrom(r); err != nil || plain.Len() < 8<<10 || (plain.Len()-32)%512 != 0 {
		t.Errorf("%v, %d bytes: want a database and its hash", err, plain.Len())
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"etcd-20200102T000000Z.age", filepath.Base(st.Copy.File), "etcd-notes.age", "mine.txt"}
	slices.Sort(want)
	if !slices.Equal(names, want) || st.Copy.Count != 2 {
		t.Errorf("left: %v (%d), want %v", names, st.Copy.Count, want)
	}
}

func TestAFullCopyIsRefusedWithoutRecipients(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.settings(func(b *mesh.BackupSettings) {
		b.Recipients, b.Copies = nil, mesh.BackupCopies{Dir: dir}
	})
	w.server()
	st := w.state("the refusal", func(st mesh.BackupState) bool { return st.Copy.Problem != "" })
	if left, err := os.ReadDir(dir); !strings.Contains(st.Copy.Problem, "recipient") || err != nil || len(left) > 0 {
		t.Errorf("problem %q, left %v (%v)", st.Copy.Problem, left, err)
	}
}

// TestTrafficTotalsAreThinnedOut: they change each hour and are large, so that a
// change of something else leaves those of the last time.
func TestTrafficTotalsAreThinnedOut(t *testing.T) {
	w := newWorld(t)
	moved := func(n int64) {
		t.Helper()
		_, err := w.st.Update(t.Context(), func(tx *store.Tx) error {
			totals := mesh.TrafficTotals{Cores: map[mesh.CoreID]mesh.Traffic{mesh.NewCoreID(): {Up: n}}}
			err := store.Update(tx, w.st.Totals, "07", func(have *mesh.TrafficTotals) error { *have = totals; return nil })
			if errors.Is(err, mesh.ErrNotFound) {
				err = store.Create(tx, w.st.Totals, "07", totals)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	backedUp := func() string {
		t.Helper()
		for _, o := range w.read().Objects {
			if o.Folder == store.FolderTotals {
				return string(o.JSON)
			}
		}
		t.Fatal("no totals are in the backup")
		return ""
	}
	moved(1)
	s := w.server()
	w.mustRound(s, s.due(t, 0))
	first := backedUp()
	moved(2)
	w.member("Noor")
	until(t, "the member in the backup", func() (bool, bool) {
		w.mustRound(s, s.Order())
		return true, slices.ContainsFunc(w.read().Objects, func(o backup.Object) bool { return strings.Contains(string(o.JSON), "Noor") })
	})
	if got := backedUp(); got != first {
		t.Errorf("the totals were written again at once: %s", got)
	}
	s.Prove(t.Context(), chores.BackupProof{Epoch: s.Order().Epoch, Remote: "r", Commit: w.head}, w.tree)
	if st := w.state("the proof", func(st mesh.BackupState) bool { return st.Proof.Commit == w.head }); st.Proof.Problem != "" {
		t.Errorf("proof: %s", st.Proof.Problem)
	}
	w.settings(func(b *mesh.BackupSettings) { b.TotalsEvery = mesh.Duration(time.Millisecond) })
	until(t, "the totals of now", func() (bool, bool) {
		w.mustRound(s, s.Order())
		return true, backedUp() != first
	})
}

// TestNoSecretLeaves: neither the order's text form nor state, events or audit
// hold a credential.
func TestNoSecretLeaves(t *testing.T) {
	w := newWorld(t)
	const canary = "canary-token-4711"
	sealed, err := w.st.Seal(store.BackupRemotePlace("r"), canary)
	if err != nil {
		t.Fatal(err)
	}
	w.settings(func(b *mesh.BackupSettings) {
		b.Remotes[0].Auth, b.Remotes[0].Credential = mesh.BackupAuthToken, sealed
	})
	s := w.server()
	o := s.due(t, 0)
	if o.Remotes[0].Credential.Reveal() != canary {
		t.Fatal("the child does not get the credential")
	}
	w.mustRound(s, o)
	var seen bytes.Buffer
	fmt.Fprintf(&seen, "%v %+v %#v", o.Remotes, o.Remotes, o.Remotes)
	for path, data := range w.tree {
		fmt.Fprintf(&seen, "%s\n%s\n", path, data)
	}
	audit, _, err := w.st.Audit.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events, _, err := w.st.Events.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st, _ := s.State()
	for _, v := range []any{audit, events, st} {
		if err := json.NewEncoder(&seen).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Contains(seen.Bytes(), []byte(canary)) {
		t.Error("the token is to be seen")
	}
}
