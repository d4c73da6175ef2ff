package chores

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bare is a new repository.
func bare(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "remote.git")
	git(t, "", "init", "-q", "--bare", "-b", "main", dir)
	return dir
}

// git runs the program in a repository and returns what it said.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// newBackups is a foreman whose child makes the archive's backups.
func newBackups(t *testing.T, a *archive) *site {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("outcomes: %+v", a.outcomes)
		}
	})
	return newSite(t, "", func(f *Foreman) { f.Backup, f.Scratch = a, t.TempDir() })
}

// done asks for a commit and waits until every remote holds it.
func (s *site) done(t *testing.T, a *archive) BackupOutcome {
	t.Helper()
	due := a.due()
	s.Wake()
	return s.reach(t, a, due)
}

// reach waits until every remote holds the commit that answers due.
func (s *site) reach(t *testing.T, a *archive, due uint64) (out BackupOutcome) {
	t.Helper()
	until(t, "every remote holds the backup", func() bool {
		var err error
		out, err = a.last(due)
		if err != nil || out.Failure != "" {
			return false
		}
		for _, o := range a.Order().Remotes {
			if r, ok := a.left(o.Name); !ok || r.Failure != "" || r.Head != out.Commit {
				return false
			}
		}
		return true
	})
	return out
}

func (s *site) prove(t *testing.T, a *archive) proven {
	t.Helper()
	before := 0
	a.set(func() { before = len(a.proofs) })
	a.prove()
	s.Wake()
	var got proven
	until(t, "a proof", func() bool {
		n := 0
		a.set(func() {
			if n = len(a.proofs); n > before {
				got = a.proofs[n-1]
			}
		})
		return n > before
	})
	return got
}

// sound checks what a remote holds: whole, ours, the state of now.
func sound(t *testing.T, w *world, remote string) {
	t.Helper()
	git(t, remote, "fsck", "--strict", "--no-dangling")
	state := readRemote(t, w, remote)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(state.Objects) != len(w.state.Objects) {
		t.Fatalf("%d objects, want %d", len(state.Objects), len(w.state.Objects))
	}
	for i, o := range w.state.Objects {
		if got := state.Objects[i]; got.ID != o.ID || !equalJSON(got.JSON, o.JSON) {
			t.Fatalf("%s: %s, want %s", got.ID, got.JSON, o.JSON)
		}
	}
	if len(state.Audit) != len(w.audit) {
		t.Fatalf("%d audit records, want %d", len(state.Audit), len(w.audit))
	}
}

func linear(t *testing.T, remote string) {
	t.Helper()
	if merges := git(t, remote, "rev-list", "--merges", "main"); merges != "" {
		t.Errorf("merges: %s", merges)
	}
}

func TestBackupsGoToEveryRemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := bare(t), bare(t)
	a := newArchive(t, w, BackupEpoch{1, 7}, t.TempDir(), one, "file://"+two)
	s := newBackups(t, a)
	w.change(3)
	out := s.done(t, a)
	if !out.Committed || out.Recloned || out.Revision != 1 {
		t.Errorf("%+v", out)
	}
	w.change(2)
	out = s.done(t, a)
	for _, remote := range []string{one, two} {
		sound(t, w, remote)
		linear(t, remote)
		if head := git(t, remote, "rev-parse", "main"); head != out.Commit {
			t.Errorf("it holds %s", head)
		}
		if msg := git(t, remote, "log", "-1", "--format=%B", "main"); !strings.Contains(msg, "Meshctl-Epoch: 1.7\nMeshctl-Revision: 2") {
			t.Errorf("message: %s", msg)
		}
	}
	again := s.done(t, a)
	if again.Committed || again.Commit != out.Commit {
		t.Errorf("a commit although nothing changed: %+v", again)
	}
	commits := map[string]bool{}
	for range 2 {
		p := s.prove(t, a)
		if p.err != nil || len(p.state.Objects) != 3 || p.Commit != out.Commit {
			t.Errorf("proof: %+v", p)
		}
		commits[p.Remote] = true
	}
	if len(commits) != 2 {
		t.Errorf("two proofs of the same remote: %v", commits)
	}
	if n := len(git(t, one, "tag")); n != 0 {
		t.Errorf("tags without a heartbeat")
	}
}

func TestAHeartbeatIsOneTagInEachPeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	a.order.Heartbeat = 24 * time.Hour
	s := newBackups(t, a)
	w.change(1)
	out := s.done(t, a)
	if day := "backup/" + time.Now().UTC().Format(time.DateOnly); out.Remotes[0].Tag != day {
		t.Errorf("%+v, want %s", out, day)
	}
	s.done(t, a)
	if tags := git(t, remote, "tag"); strings.Count(tags, "\n") != 0 {
		t.Errorf("tags: %s", tags)
	}
	if kind := git(t, remote, "cat-file", "-t", out.Remotes[0].Tag); kind != "tag" {
		t.Errorf("it is a %s", kind)
	}
	a.set(func() { a.order.Heartbeat = time.Second })
	until(t, "more tags", func() bool { return strings.Count(git(t, remote, "tag"), "\n") >= 2 })
}
