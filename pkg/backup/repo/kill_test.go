package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// childEnv is "POINT NTH FOLDER REMOTE" for a process that is killed when it
// comes to that point for the nth time.
const childEnv = "MESHCTL_REPO_CHILD"

// small packs often, so that this too is interrupted.
var small = Options{Mine: mineOnly, Limits: Limits{Loose: 8, Packs: 1}}

// child is a server that takes in what the remote holds, and writes and pushes
// three states.
func child(arg string) int {
	f := strings.Split(arg, "|")
	nth, err := strconv.Atoi(f[1])
	if err != nil {
		return 2
	}
	r, err := Open(context.Background(), f[2], small)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r.step = func(point string) {
		if point != f[0] {
			return
		}
		if nth--; nth == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	for i := range 3 {
		if _, err := round(context.Background(), r, local(f[3]), "b", fmt.Sprint("child ", i)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// TestKilledAnywhere (G-02) kills a process at points of taking in, commit,
// packing and push. The next one goes on: neither repository is damaged, what
// was pushed is a whole backup, and nothing is lost or there twice.
func TestKilledAnywhere(t *testing.T) {
	need(t, "git", "git")
	for _, at := range []struct {
		point string
		nth   int
	}{
		{"pack received", 1}, {"storing", 1}, {"storing", 2}, {"pack copied", 1}, {"fetched", 1},
		{"object", 1}, {"object", 3}, {"trees", 1}, {"commit", 1}, {"ref written", 2},
		{"head", 1}, {"push", 1}, {"sending", 1}, {"sending", 2}, {"pushed", 1},
		{"ref written", 4}, {"object", 5}, {"commit", 2}, {"push", 2}, {"pushed", 2},
		{"packed", 1}, {"merged", 1}, {"merge placed", 1}, {"merge removed", 1}, {"pack copied", 2}, {"sending", 3}, {"fetched", 3}, {"pushed", 3},
	} {
		t.Run(fmt.Sprintf("%s %d", at.point, at.nth), func(t *testing.T) {
			dir, remote := filepath.Join(t.TempDir(), "repo.git"), bare(t)
			second(t, remote, func(r *Repo) { state(t, r, "a", "1") })
			killed(t, at.point, at.nth, dir, remote)

			soundAtLast(t, remote)
			r := openAt(t, dir, small)
			if r.SetAside() != "" {
				t.Error("the clone was given up")
			}
			if r.Head() != "" {
				git(t, dir, "fsck", "--strict", "--connectivity-only")
				if err := ours(t.Context(), treeAt(t, r, r.Head())); err != nil {
					t.Errorf("the head left behind: %v", err)
				}
			}
			left := r.Head()
			id, err := round(t.Context(), r, local(remote), "b", "after")
			if err != nil {
				t.Fatal(err)
			}
			git(t, dir, "fsck", "--strict")
			git(t, remote, "fsck", "--strict")
			got := content(t, open2(t, remote), "")
			if got["our/a"] != "1" || got["our/b"] != "after" || got["our/sum"] != sumOf(got) {
				t.Errorf("the remote has %v", got)
			}
			if ok, err := r.isAncestor(t.Context(), left, id); left != "" && (err != nil || !ok) {
				t.Errorf("what was committed is lost (%v)", err)
			}
			trees := strings.Fields(git(t, remote, "log", "--format=%T", "main"))
			seen := make(map[string]bool)
			for _, tree := range trees {
				if seen[tree] {
					t.Errorf("a state is there twice: %v", trees)
				}
				seen[tree] = true
			}
			if n := git(t, remote, "rev-list", "--min-parents=2", "--count", "main"); n != "0" {
				t.Errorf("%s merges in a history of one writer", n)
			}
		})
	}
}

// soundAtLast waits until a repository has no fault: the remote's own git may still
// be taking in what was sent, and whoever looks meanwhile sees half of it.
func soundAtLast(t *testing.T, remote string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		cmd := exec.CommandContext(t.Context(), need(t, "git", "git"), "fsck", "--strict")
		cmd.Dir, cmd.Env = remote, append(safeEnv(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the remote is damaged: %v\n%s", err, out)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func killed(t *testing.T, point string, nth int, dir, remote string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d|%s|%s", childEnv, point, nth, dir, remote))
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
}

// TestLeftoversAreRemoved puts into a clone what processes and disks leave.
func TestLeftoversAreRemoved(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, dir string){
		"lock files": func(t *testing.T, dir string) {
			for _, f := range []string{"HEAD.lock", "config.lock", "index.lock", "refs/heads/main.lock", "packed-refs.lock", "shallow.lock"} {
				set(t, filepath.Join(dir, f), "")
			}
		},
		"temporary files": func(t *testing.T, dir string) {
			set(t, dir+"/objects/pack/tmp_pack_123", "PACK")
			set(t, dir+"/objects/pack/tmp_obj_123", "x")
			set(t, dir+"/tmp/pack1", "x")
			set(t, dir+".new/HEAD", "x")
		},
		"half of a pack": func(t *testing.T, dir string) {
			set(t, dir+"/objects/pack/pack-"+strings.Repeat("a", 40)+".idx", "x")
			set(t, dir+"/objects/pack/pack-"+strings.Repeat("b", 40)+".pack", "x")
		},
		"an empty reference": func(t *testing.T, dir string) { set(t, dir+"/refs/remotes/disk", "") },
		"a torn reference":   func(t *testing.T, dir string) { set(t, dir+"/refs/tags/backup/x", "0123") },
		"the head's file is empty": func(t *testing.T, dir string) {
			set(t, dir+"/refs/heads/main", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, remote := open(t, Options{Mine: mineOnly}), bare(t)
			want := state(t, r, "a", "1")
			push(t, r, local(remote))
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			harm(t, r.dir)
			again := openAt(t, r.dir, Options{Mine: mineOnly})
			if again.SetAside() != "" {
				t.Error("the clone was given up")
			}
			integrate(t, again, local(remote))
			if again.Head() != want {
				t.Errorf("the head is %s, want %s", again.Head(), want)
			}
			git(t, r.dir, "fsck", "--strict")
			for _, glob := range []string{"/*.lock", "/refs/*/*.lock", "/objects/pack/tmp*", "/tmp/*"} {
				if left, _ := filepath.Glob(r.dir + glob); len(left) > 0 {
					t.Errorf("%v is left", left)
				}
			}
		})
	}
}

// TestDamagedCloneIsMadeAnew damages what cannot be mended. The clone is set
// aside, and the remote's is taken.
func TestDamagedCloneIsMadeAnew(t *testing.T) {
	one := func(t *testing.T, pattern string) string {
		t.Helper()
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file %s (%v)", pattern, err)
		}
		return files[0]
	}
	loose := func(t *testing.T, r *Repo, id string) string { t.Helper(); return r.loose(ID(id).hash()) }
	for name, c := range map[string]struct {
		packed bool
		harm   func(t *testing.T, r *Repo)
	}{
		"HEAD is empty":           {false, func(t *testing.T, r *Repo) { set(t, r.dir+"/HEAD", "") }},
		"config is gone":          {false, func(t *testing.T, r *Repo) { must(t, os.Remove(r.dir+"/config")) }},
		"objects are gone":        {false, func(t *testing.T, r *Repo) { must(t, os.RemoveAll(r.dir+"/objects")) }},
		"a file where it is":      {false, func(t *testing.T, r *Repo) { must(t, os.RemoveAll(r.dir)); set(t, r.dir, "x") }},
		"the commit is gone":      {false, func(t *testing.T, r *Repo) { must(t, os.Remove(loose(t, r, string(r.Head())))) }},
		"the commit is empty":     {false, func(t *testing.T, r *Repo) { harm(t, loose(t, r, string(r.Head())), 0) }},
		"the tree is cut":         {false, func(t *testing.T, r *Repo) { harm(t, loose(t, r, git(t, r.dir, "rev-parse", "HEAD^{tree}")), 9) }},
		"a folder is garbage":     {false, func(t *testing.T, r *Repo) { set(t, loose(t, r, git(t, r.dir, "rev-parse", "HEAD:our")), "garbage") }},
		"a file is gone":          {false, func(t *testing.T, r *Repo) { must(t, os.Remove(loose(t, r, git(t, r.dir, "rev-parse", "HEAD:our/a")))) }},
		"a file is empty":         {false, func(t *testing.T, r *Repo) { harm(t, loose(t, r, git(t, r.dir, "rev-parse", "HEAD:our/a")), 0) }},
		"the pack is cut":         {true, func(t *testing.T, r *Repo) { harm(t, one(t, r.dir+"/objects/pack/*.pack"), 40) }},
		"the pack is gone":        {true, func(t *testing.T, r *Repo) { must(t, os.Remove(one(t, r.dir+"/objects/pack/*.pack"))) }},
		"the pack's index is cut": {true, func(t *testing.T, r *Repo) { harm(t, one(t, r.dir+"/objects/pack/*.idx"), 40) }},
	} {
		t.Run(name, func(t *testing.T) {
			r, remote := open(t, Options{Mine: mineOnly}), bare(t)
			want := state(t, r, "a", "1")
			push(t, r, local(remote))
			if c.packed {
				must(t, r.Pack(t.Context()))
			}
			c.harm(t, r)
			must(t, r.Close())
			again := openAt(t, r.dir, Options{Mine: mineOnly})
			if again.SetAside() == "" || !exists(again.SetAside()) {
				t.Errorf("the damaged clone was not set aside")
			}
			integrate(t, again, local(remote))
			if again.Head() != want || content(t, again, want)["our/a"] != "1" {
				t.Errorf("the head is %s, want %s", again.Head(), want)
			}
			git(t, again.dir, "fsck", "--strict")
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// harm cuts a file.
func harm(t testing.TB, path string, size int64) {
	t.Helper()
	must(t, os.Chmod(path, 0o600))
	must(t, os.Truncate(path, size))
}

// TestDamageIsNotPushed changes a file of the clone after it was opened.
func TestDamageIsNotPushed(t *testing.T) {
	r, remote := open(t, Options{}), bare(t)
	put(t, r, "one", file("a", "the right text"))
	other := open(t, Options{})
	put(t, other, "one", file("a", "another text"))
	b, err := os.ReadFile(other.loose(ID(git(t, other.dir, "rev-parse", "HEAD:a")).hash()))
	must(t, err)
	path := r.loose(ID(git(t, r.dir, "rev-parse", "HEAD:a")).hash())
	must(t, os.Chmod(path, 0o600))
	must(t, os.WriteFile(path, b, 0o600))
	r.load()
	if err := r.Push(t.Context(), local(remote), r.Head(), nil); ReasonOf(err) != ReasonDamaged || !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("push: %v (%s), want damaged", err, ReasonOf(err))
	}
	if _, err := treeAt(t, r, r.Head()).File(t.Context(), "a"); ReasonOf(err) != ReasonDamaged {
		t.Errorf("read: %v (%s), want damaged", err, ReasonOf(err))
	}
}
