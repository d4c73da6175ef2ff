package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// In these tests a backup is the files under "our/", and our/sum, which names
// them all, is its manifest.
func mineOnly(path string) bool { return strings.HasPrefix(path, "our/") || path == "README.md" }

func sumOf(files map[string]string) string {
	n := 0
	var b strings.Builder
	for p, text := range files {
		if strings.HasPrefix(p, "our/") && p != "our/sum" {
			n += len(p) * len(text)
		}
	}
	fmt.Fprintf(&b, "signed %d", n)
	return b.String()
}

func ours(ctx context.Context, t *Tree) error {
	files := make(map[string]string)
	if err := t.Each(ctx, "", func(p string, data []byte) error { files[p] = string(data); return nil }); err != nil {
		return err
	}
	if files["our/sum"] != sumOf(files) {
		return errors.New("not ours")
	}
	return nil
}

// state writes a backup of one object.
func state(t testing.TB, r *Repo, object, text string) ID {
	t.Helper()
	id, err := tryState(t.Context(), r, object, text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func tryState(ctx context.Context, r *Repo, object, text string) (ID, error) {
	files := make(map[string]string)
	if h := r.Head(); h != "" {
		tree, err := r.Tree(h)
		if err != nil {
			return "", err
		}
		if err := tree.Each(ctx, "", func(p string, data []byte) error { files[p] = string(data); return nil }); err != nil {
			return "", err
		}
	}
	files["our/"+object] = text
	return tryPut(ctx, r, object, file("our/"+object, text), file("our/sum", sumOf(files)), file("README.md", "ours"))
}

func integrate(t testing.TB, r *Repo, rm Remote) Integration {
	t.Helper()
	in, err := Integrator{Ours: ours, When: epoch.Add(time.Hour)}.Integrate(t.Context(), r, rm)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// stranger commits files to a remote with the git program.
func stranger(t testing.TB, dir string, change func(work string)) ID {
	t.Helper()
	work := filepath.Join(t.TempDir(), "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	git(t, work, "init", "-q", "-b", "main")
	if strings.Contains(git(t, work, "ls-remote", dir), "refs/heads/main") {
		git(t, work, "fetch", "-q", dir, "main")
		git(t, work, "reset", "-q", "--hard", "FETCH_HEAD")
	}
	change(work)
	git(t, work, "add", "-A")
	git(t, work, "commit", "-q", "-m", "somebody was here")
	git(t, work, "push", "-q", dir, "HEAD:refs/heads/main")
	return ID(git(t, work, "rev-parse", "HEAD"))
}

func set(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, []byte(text))
}

// TestIntegrate goes through everything that a remote may hold. After each a
// push is a fast-forward, and the history has what both sides wrote.
func TestIntegrate(t *testing.T) {
	type world struct {
		r    *Repo
		dir  string
		base ID // both have it
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, w world)
		want   Outcome
		check  func(t *testing.T, w world, in Integration)
	}{
		"nothing new":  {func(*testing.T, world) {}, OutcomeSame, nil},
		"we are ahead": {func(t *testing.T, w world) { state(t, w.r, "b", "2") }, OutcomeBehind, nil},
		"another of our servers went on": {func(t *testing.T, w world) {
			second(t, w.dir, func(r *Repo) { state(t, r, "b", "2") })
		}, OutcomeAdopted, func(t *testing.T, w world, in Integration) {
			if in.Head != in.Remote || content(t, w.r, in.Head)["our/b"] != "2" {
				t.Errorf("adopted %v", content(t, w.r, in.Head))
			}
		}},
		"another of our servers went on beside us": {func(t *testing.T, w world) {
			second(t, w.dir, func(r *Repo) { state(t, r, "b", "theirs") })
			state(t, w.r, "b", "ours")
		}, OutcomeMerged, func(t *testing.T, w world, in Integration) {
			if content(t, w.r, in.Head)["our/b"] != "ours" {
				t.Errorf("merged %v", content(t, w.r, in.Head))
			}
		}},
		"somebody added a file of his own": {func(t *testing.T, w world) {
			stranger(t, w.dir, func(work string) { set(t, work+"/.github/ci.yml", "x"); set(t, work+"/notes", "y") })
			state(t, w.r, "b", "2")
		}, OutcomeMerged, func(t *testing.T, w world, in Integration) {
			if git(t, w.r.dir, "show", string(in.Head)+":.github/ci.yml") != "x" || content(t, w.r, in.Head)["our/b"] != "2" {
				t.Errorf("merged %v", content(t, w.r, in.Head))
			}
		}},
		"somebody changed a file of ours": {func(t *testing.T, w world) {
			stranger(t, w.dir, func(work string) { set(t, work+"/our/a", "tampered"); set(t, work+"/notes", "y") })
		}, OutcomeConflict, func(t *testing.T, w world, in Integration) {
			if got := content(t, w.r, in.Head); got["our/a"] != "1" || git(t, w.r.dir, "show", string(in.Head)+":notes") != "y" {
				t.Errorf("our state became %v", got)
			}
		}},
		"somebody removed all": {func(t *testing.T, w world) {
			stranger(t, w.dir, func(work string) {
				if err := os.RemoveAll(work + "/our"); err != nil {
					t.Fatal(err)
				}
			})
			state(t, w.r, "b", "2")
		}, OutcomeConflict, nil},
		"the branch was deleted": {func(t *testing.T, w world) {
			git(t, w.dir, "update-ref", "-d", "refs/heads/main")
		}, OutcomeEmpty, nil},
		"pushed back by force": {func(t *testing.T, w world) {
			state(t, w.r, "b", "2")
			push(t, w.r, local(w.dir))
			git(t, w.dir, "update-ref", "refs/heads/main", string(w.base))
		}, OutcomeBehind, nil},
		"replaced by another history": {func(t *testing.T, w world) {
			git(t, w.dir, "update-ref", "-d", "refs/heads/main")
			stranger(t, w.dir, func(work string) { set(t, work+"/README.md", "new here"); set(t, work+"/LICENSE", "MIT") })
		}, OutcomeMerged, func(t *testing.T, w world, in Integration) {
			if got := content(t, w.r, in.Head); got["README.md"] != "ours" || git(t, w.r.dir, "show", string(in.Head)+":LICENSE") != "MIT" {
				t.Errorf("merged %v", got)
			}
		}},
		"replaced by a shallow clone of itself": {func(t *testing.T, w world) {
			state(t, w.r, "b", "2")
			push(t, w.r, local(w.dir))
			old := w.dir + ".old"
			if err := os.Rename(w.dir, old); err != nil {
				t.Fatal(err)
			}
			git(t, "", "clone", "-q", "--bare", "--depth=1", "file://"+old, w.dir)
			state(t, w.r, "c", "3")
		}, OutcomeBehind, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{r: open(t, Options{Mine: mineOnly}), dir: bare(t)}
			state(t, w.r, "zero", "0")
			w.base = state(t, w.r, "a", "1")
			push(t, w.r, local(w.dir))
			c.change(t, w)
			before := w.r.Head()
			in := integrate(t, w.r, local(w.dir))
			if in.Outcome != c.want {
				t.Fatalf("outcome %s, want %s", in.Outcome, c.want)
			}
			if in.Head != w.r.Head() {
				t.Errorf("head %s, said %s", w.r.Head(), in.Head)
			}
			for _, id := range []ID{before, in.Remote} {
				if ok, err := w.r.isAncestor(t.Context(), id, in.Head); id != "" && (err != nil || !ok) {
					t.Errorf("%s is no longer in the history (%v)", id, err)
				}
			}
			if err := ours(t.Context(), treeAt(t, w.r, in.Head)); err != nil {
				t.Errorf("the head's files are not whole: %v", err)
			}
			if c.check != nil {
				c.check(t, w, in)
			}
			state(t, w.r, "last", "9")
			push(t, w.r, local(w.dir))
			git(t, w.dir, "fsck", "--strict")
			if in.Branch != "" {
				if got := git(t, w.dir, "rev-parse", in.Branch); got != string(in.Remote) {
					t.Errorf("%s keeps %s, want %s", in.Branch, got, in.Remote)
				}
			} else if c.want == OutcomeConflict {
				t.Error("no branch keeps what they wrote")
			}
		})
	}
}

func treeAt(t testing.TB, r *Repo, id ID) *Tree {
	t.Helper()
	tree, err := r.Tree(id)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// second is another server with a clone of its own.
func second(t testing.TB, dir string, f func(r *Repo)) {
	t.Helper()
	r := open(t, Options{Mine: mineOnly})
	integrate(t, r, local(dir))
	f(r)
	push(t, r, local(dir))
}

// TestIntegrateIntoNothing is a server without a clone: new, or recovered.
func TestIntegrateIntoNothing(t *testing.T) {
	t.Run("ours", func(t *testing.T) {
		dir := bare(t)
		second(t, dir, func(r *Repo) { state(t, r, "a", "1") })
		r := open(t, Options{Mine: mineOnly})
		if in := integrate(t, r, local(dir)); in.Outcome != OutcomeAdopted || content(t, r, in.Head)["our/a"] != "1" {
			t.Errorf("%+v", in)
		}
	})
	t.Run("ours, and then somebody tampered", func(t *testing.T) {
		dir := bare(t)
		second(t, dir, func(r *Repo) { state(t, r, "a", "1") })
		stranger(t, dir, func(work string) { set(t, work+"/our/a", "tampered") })
		r := open(t, Options{Mine: mineOnly})
		if in := integrate(t, r, local(dir)); in.Outcome != OutcomeConflict || content(t, r, in.Head)["our/a"] != "1" {
			t.Errorf("%+v: %v", in, content(t, r, in.Head))
		}
	})
	t.Run("never ours", func(t *testing.T) {
		dir := bare(t)
		stranger(t, dir, func(work string) { set(t, work+"/README.md", "hi"); set(t, work+"/LICENSE", "MIT") })
		r := open(t, Options{Mine: mineOnly})
		in := integrate(t, r, local(dir))
		if in.Outcome != OutcomeMerged || len(content(t, r, in.Head)) != 0 {
			t.Errorf("%+v: %v", in, content(t, r, in.Head))
		}
		state(t, r, "a", "1")
		push(t, r, local(dir))
		if got := git(t, dir, "ls-tree", "-r", "--name-only", "main"); got != "LICENSE\nREADME.md\nour/a\nour/sum" {
			t.Errorf("the remote has %s", got)
		}
	})
	t.Run("looks like ours", func(t *testing.T) {
		dir := bare(t)
		stranger(t, dir, func(work string) { set(t, work+"/our/a", "forged"); set(t, work+"/our/sum", "signed by nobody") })
		r := open(t, Options{Mine: mineOnly})
		in := integrate(t, r, local(dir))
		if in.Outcome != OutcomeConflict || len(content(t, r, in.Head)) != 0 {
			t.Errorf("%+v: %v", in, content(t, r, in.Head))
		}
	})
}

// TestTwoPushersAtOnce (G-07): whatever two servers do, the remote's history
// only grows, each commit is in it, and nothing was forced.
func TestTwoPushersAtOnce(t *testing.T) {
	const rounds = 50
	dir := bare(t)
	git(t, dir, "config", "receive.denyNonFastForwards", "true")
	git(t, dir, "config", "core.logAllRefUpdates", "true")
	var wg sync.WaitGroup
	made := make([][]ID, 2)
	for n := range made {
		r := open(t, Options{Mine: mineOnly})
		wg.Go(func() {
			for i := range rounds {
				id, err := round(t.Context(), r, local(dir), fmt.Sprint("s", n), fmt.Sprint(i))
				if err != nil {
					t.Errorf("server %d, round %d: %v", n, i, err)
					return
				}
				made[n] = append(made[n], id)
			}
		})
	}
	wg.Wait()
	git(t, dir, "fsck", "--strict", "--full")
	in := strings.Fields(git(t, dir, "rev-list", "main"))
	all := make(map[ID]bool, len(in))
	for _, id := range in {
		all[ID(id)] = true
	}
	for n := range made {
		for _, id := range made[n] {
			if !all[id] {
				t.Errorf("commit %s of server %d is not in the history", id.Short(), n)
			}
		}
	}
	// Each place where the branch ever was is in the history of the next one.
	was := strings.Fields(git(t, dir, "reflog", "show", "--format=%H", "main"))
	for i := len(was) - 1; i > 0; i-- {
		git(t, dir, "merge-base", "--is-ancestor", was[i], was[i-1])
	}
	if len(was) < 2*rounds {
		t.Errorf("the branch moved %d times, want at least %d", len(was), 2*rounds)
	}
	last := content(t, open2(t, dir), "")
	if last["our/s0"] != fmt.Sprint(rounds-1) && last["our/s1"] != fmt.Sprint(rounds-1) {
		t.Errorf("the last state is %v", last)
	}
}

func open2(t testing.TB, dir string) *Repo {
	t.Helper()
	c, err := Clone(t.Context(), local(dir), "", 0, Options{Mine: mineOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// round is what a server does: take in, commit, push, and again when somebody
// was faster.
func round(ctx context.Context, r *Repo, rm Remote, object, text string) (ID, error) {
	for {
		if _, err := (Integrator{Ours: ours, When: epoch.Add(time.Hour)}).Integrate(ctx, r, rm); err != nil {
			return "", fmt.Errorf("integrate: %w", err)
		}
		id, err := tryState(ctx, r, object, text)
		if err != nil {
			return "", fmt.Errorf("commit: %w", err)
		}
		err = r.Push(ctx, rm, id, nil)
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, mesh.ErrConflict) {
			return "", err
		}
	}
}
