package chores

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestTheChildIsKilledAnywhere kills the child at every point at which the server
// hears of it, and at moments within a push. The next child goes on, from the
// same folder (G-02).
func TestTheChildIsKilledAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	a.order.Heartbeat = time.Second
	for n, point := range []string{"draft", "file", "manifest", "drafted", "drafted+1ms", "drafted+4ms", "allow", "allow+2ms", "allow+5ms", "allow+10ms", "allow+20ms", "ended"} {
		t.Run(point, func(t *testing.T) {
			s := newBackups(t, a)
			killed := make(chan struct{})
			a.killAt(point, s, killed)
			w.change(1 + n)
			due := a.due()
			s.Wake()
			<-killed
			until(t, "another child", func() bool { return s.Status().Restarts > 0 && s.Status().PID != 0 })
			s.reach(t, a, due)
			sound(t, w, remote)
			linear(t, remote)
			if got := git(t, remote, "rev-list", "--count", "main"); got != fmt.Sprint(n+1) {
				t.Errorf("%s commits, want %d", got, n+1)
			}
		})
	}
}

// killAt kills the site's child once, when the archive is at a point, or that
// long after it.
func (a *archive) killAt(point string, s *site, killed chan<- struct{}) {
	name, later, _ := strings.Cut(point, "+")
	delay, _ := time.ParseDuration(later) // none: at once
	kill := func() {
		if pid := s.Status().PID; pid != 0 { // 0 is all of this process's group
			_ = syscall.Kill(pid, syscall.SIGKILL) // which may have ended
		}
		close(killed)
	}
	var once sync.Once
	on(a, func(at string) {
		switch {
		case at != name:
		case delay == 0:
			once.Do(kill)
		default:
			once.Do(func() { time.AfterFunc(delay, kill) })
		}
	})
}

func TestAStaleLeaderStopsBeforeItPushes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	s := newBackups(t, a)
	w.change(1)
	before := s.done(t, a)
	w.change(2)
	a.set(func() { a.denied = true })
	due := a.due()
	s.Wake()
	until(t, "it was told no", func() bool { out, err := a.last(due); return err == nil && out.Failure == FailDenied })
	if head := git(t, remote, "rev-parse", "main"); head != before.Commit {
		t.Errorf("it pushed %s", head)
	}
}

// TestAServerThatDoesNotAnswerIsNotPushedFor: it may be paused.
func TestAServerThatDoesNotAnswerIsNotPushedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	s := newBackups(t, a)
	w.change(1)
	before := s.done(t, a)
	paused := make(chan struct{})
	defer close(paused)
	on(a, func(point string) {
		if point == "allow" {
			<-paused
		}
	})
	w.change(2)
	a.due()
	s.Wake()
	until(t, "it gave up", func() bool { r, _ := a.left("remote0"); return r.Failure == FailDraft && r.Behind == 1 })
	if head := git(t, remote, "rev-parse", "main"); head != before.Commit {
		t.Errorf("it pushed %s", head)
	}
}

// TestTwoLeadersAtOneRemote has two servers, each with a child, take turns and
// overlap (G-07, D-04).
func TestTwoLeadersAtOneRemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	old := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	young := newArchive(t, w, BackupEpoch{1, 2}, t.TempDir(), remote)
	first, second := newBackups(t, old), newBackups(t, young)
	w.change(3)
	first.done(t, old)

	// The old one has committed when the young one pushes.
	var once sync.Once
	inside := make(chan struct{})
	on(old, func(point string) {
		if point == "allow" {
			once.Do(func() {
				w.change(4)
				second.done(t, young)
				close(inside)
			})
		}
	})
	w.change(2)
	due := old.due()
	first.Wake()
	<-inside
	until(t, "the old one finds the later epoch", func() bool {
		out, err := old.last(due)
		r, _ := old.left("remote0")
		return err == nil && out.Failure == FailStale && r.Failure == FailStale
	})
	sound(t, w, remote)
	linear(t, remote)
	if head := git(t, remote, "log", "-1", "--format=%B", "main"); !strings.Contains(head, "Meshctl-Epoch: 1.2") {
		t.Errorf("the newest is %s", head)
	}

	// The office comes back to the first, in a later epoch still: what it had
	// committed and pushed nowhere is not in the history.
	old.set(func() { old.order.Epoch.Leader = 3 })
	w.change(5)
	first.done(t, old)
	sound(t, w, remote)
	linear(t, remote)
	due = young.due()
	second.Wake()
	until(t, "the second is stale now", func() bool { out, err := young.last(0); return err == nil && out.Failure == FailStale && due > 0 })
	sound(t, w, remote)
}

func on(a *archive, at func(string)) { a.set(func() { a.at = at }) }

// TestBothPushAtTheSameTime races two children of different epochs.
func TestBothPushAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	var archives []*archive
	var sites []*site
	for n := range 2 {
		a := newArchive(t, w, BackupEpoch{1, int64(n + 1)}, t.TempDir(), remote)
		archives, sites = append(archives, a), append(sites, newBackups(t, a))
	}
	w.change(1)
	sites[1].done(t, archives[1])
	for round := range 6 {
		// Who was the leader before goes on for a moment.
		young := round % 2
		archives[young].set(func() { archives[young].order.Epoch.Leader = int64(round + 3) })
		w.change(2 + round)
		archives[1-young].due()
		due := archives[young].due()
		sites[1-young].Wake()
		sites[young].Wake()
		sites[young].reach(t, archives[young], due)
		sound(t, w, remote)
		linear(t, remote)
	}
}

// TestRemotesThatWentApartComeTogether: two leaders reached one remote each.
func TestRemotesThatWentApartComeTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := bare(t), bare(t)
	for n, urls := range [][]string{{one, two}, {one}, {two}, {two, one}} {
		a := newArchive(t, w, BackupEpoch{1, int64(n + 1)}, t.TempDir(), urls...)
		s := newBackups(t, a)
		w.change(2 + n)
		s.done(t, a)
		for _, remote := range urls {
			sound(t, w, remote)
		}
		s.depose()
		<-s.gone
	}
	if a, b := git(t, one, "rev-parse", "main"), git(t, two, "rev-parse", "main"); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

func TestARemoteThatIsDownCatchesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up, down := bare(t), filepath.Join(t.TempDir(), "later.git")
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), down, up)
	s := newBackups(t, a)
	for n := range 3 {
		w.change(1 + n)
		due := a.due()
		s.Wake()
		until(t, "one remote holds it", func() bool {
			out, err := a.last(due)
			r, ok := a.left("remote1")
			return err == nil && ok && r.Head == out.Commit
		})
		sound(t, w, up)
	}
	until(t, "the other is reported", func() bool {
		r, ok := a.left("remote0")
		return ok && r.Failure == FailMissing && r.Behind == 3
	})
	git(t, "", "init", "-q", "--bare", "-b", "main", down)
	s.reach(t, a, a.Order().Due)
	sound(t, w, down)
	if got := git(t, down, "rev-list", "--count", "main"); got != "3" {
		t.Errorf("%s commits, want 3", got)
	}
}

// TestCommitsAreQueuedWhileNoRemoteAnswers also counts how often they are asked.
func TestCommitsAreQueuedWhileNoRemoteAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	s := newBackups(t, a)
	w.change(1)
	s.done(t, a)
	away := remote + ".away"
	if err := os.Rename(remote, away); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var due uint64
	for n := range 4 {
		w.change(2 + n)
		due = a.due()
		s.Wake()
		until(t, "it is committed", func() bool { out, err := a.last(due); return err == nil && out.Revision == int64(2+n) })
	}
	tries := 0
	a.set(func() {
		for _, out := range a.outcomes {
			for _, r := range out.Remotes {
				if r.Failure != "" {
					tries++
				}
			}
		}
	})
	if most := int(time.Since(begun)/(brisk().first/2)) + 1; tries == 0 || tries > most {
		t.Errorf("it was asked %d times in %v", tries, time.Since(begun))
	}
	if err := os.Rename(away, remote); err != nil {
		t.Fatal(err)
	}
	s.reach(t, a, due)
	sound(t, w, remote)
	if got := git(t, remote, "rev-list", "--count", "main"); got != "5" {
		t.Errorf("%s commits, want 5", got)
	}
}

// TestWhatOthersDoAtARemote is G-01.
func TestWhatOthersDoAtARemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	s := newBackups(t, a)
	w.change(2)
	first := s.done(t, a)
	work := filepath.Join(t.TempDir(), "work")
	git(t, "", "clone", "-q", remote, work)
	push := func(path, text string) {
		git(t, work, "pull", "-q")
		if err := os.WriteFile(filepath.Join(work, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, work, "add", path)
		git(t, work, "commit", "-q", "-m", "mine")
		git(t, work, "push", "-q")
	}

	push("notes.txt", "mine")
	w.change(3)
	if out := s.done(t, a); out.Remotes[0].Conflict != "" {
		t.Errorf("%+v", out)
	}
	if got := git(t, remote, "show", "main:notes.txt"); got != "mine" {
		t.Errorf("somebody's file: %q", got)
	}
	sound(t, w, remote)

	push("README.md", "hijacked")
	out := s.done(t, a) // nothing has changed but that
	branch := out.Remotes[0].Conflict
	if branch == "" {
		t.Fatalf("%+v", out)
	}
	if got := git(t, remote, "show", branch+":README.md"); got != "hijacked" {
		t.Errorf("the branch has %q", got)
	}
	sound(t, w, remote)

	git(t, remote, "update-ref", "-d", "refs/heads/main")
	out = s.done(t, a)
	sound(t, w, remote)

	git(t, remote, "update-ref", "refs/heads/main", first.Commit)
	again := s.done(t, a)
	if again.Commit != out.Commit {
		t.Errorf("it was rewound, and became %+v", again)
	}
	sound(t, w, remote)
}

func TestADamagedCloneIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := bare(t)
	folder := t.TempDir()
	a := newArchive(t, w, BackupEpoch{1, 1}, folder, remote)
	s := newBackups(t, a)
	w.change(20)
	s.done(t, a)
	n := 0
	err := filepath.WalkDir(filepath.Join(folder, "repo.git", "objects"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if n++; n%2 == 0 {
				return os.Truncate(path, 1)
			}
		}
		return err
	})
	if err != nil || n == 0 {
		t.Fatalf("%d objects, %v", n, err)
	}
	w.change(21)
	s.done(t, a)
	sound(t, w, remote)
	linear(t, remote)
	recloned := false
	a.set(func() {
		for _, out := range a.outcomes {
			recloned = recloned || out.Recloned
		}
	})
	if !recloned {
		t.Error("nobody was told")
	}
}
