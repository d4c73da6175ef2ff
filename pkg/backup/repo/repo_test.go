package repo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestCommitIsWhatGitReads(t *testing.T) {
	r := open(t, Options{})
	first := put(t, r, "one", file("b/x.yaml", "1\n"), file("b.c", "2\n"), file("a", "3\n"))
	second := put(t, r, "two", file("b/y/z", "4\n"), gone("a"), gone("never/was"))
	third := put(t, r, "three", gone("b/y/z"))
	if got, want := git(t, r.dir, "ls-tree", "-r", "--name-only", string(second)), "b.c\nb/x.yaml\nb/y/z"; got != want {
		t.Errorf("git reads %q, want %q", got, want)
	}
	if got, want := git(t, r.dir, "ls-tree", "-r", "--name-only", "HEAD"), "b.c\nb/x.yaml"; got != want {
		t.Errorf("git reads %q, want %q", got, want)
	}
	git(t, r.dir, "fsck", "--strict", "--full")
	if got := git(t, r.dir, "log", "--format=%s|%(trailers:key=Meshctl-Epoch,valueonly,separator=%x2C)|%H"); got != "three|1/2|"+string(third)+"\ntwo|1/2|"+string(second)+"\none|1/2|"+string(first) {
		t.Errorf("git log: %s", got)
	}
	if got, want := content(t, r, second), map[string]string{"b/x.yaml": "1\n", "b.c": "2\n", "b/y/z": "4\n"}; !maps.Equal(got, want) {
		t.Errorf("content %v, want %v", got, want)
	}
	if id := put(t, r, "nothing", file("b.c", "2\n")); id != third {
		t.Errorf("a draft that changed nothing made commit %s", id)
	}
}

func TestTreeIsReadInParts(t *testing.T) {
	r := open(t, Options{Mine: func(p string) bool { return !strings.HasPrefix(p, "theirs") }})
	id := put(t, r, "one", file("a/1", "x"), file("a/b/2", "y"), file("ab", "z"), file("theirs/q", "q"))
	tree, err := r.Tree(id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = tree.Each(t.Context(), "a/", func(path string, _ []byte) error { got = append(got, path); return nil })
	if want := []string{"a/1", "a/b/2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("below a/: %v (%v), want %v", got, err, want)
	}
	for path, want := range map[string]string{"a/b/2": "y", "ab": "z"} {
		if data, err := tree.File(t.Context(), path); err != nil || string(data) != want {
			t.Errorf("%s is %q (%v)", path, data, err)
		}
	}
	for _, path := range []string{"a", "a/b", "a/1/2", "no", "", "theirs/q", "../x"} {
		if _, err := tree.File(t.Context(), path); !errors.Is(err, mesh.ErrNotFound) {
			t.Errorf("File(%q): %v, want ErrNotFound", path, err)
		}
	}
}

func TestPushAndClone(t *testing.T) {
	r, there := open(t, Options{}), bare(t)
	first := put(t, r, "one", file("a", "1"), file("d/e", "2"))
	push(t, r, local(there))
	second := put(t, r, "two", file("a", "3"))
	push(t, r, local("file://"+there))
	push(t, r, local(there)) // again is nothing
	git(t, there, "fsck", "--strict", "--full")
	if got := git(t, there, "rev-parse", "main"); got != string(second) {
		t.Errorf("the remote is at %s, want %s", got, second)
	}
	for _, depth := range []int{0, 1} {
		c, err := Clone(t.Context(), local(there), "", depth, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Head() != second || !maps.Equal(content(t, c, second), map[string]string{"a": "3", "d/e": "2"}) {
			t.Errorf("depth %d: the clone has %s, %v", depth, c.Head(), content(t, c, c.Head()))
		}
		n := 0
		for _, err := range c.Log(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		if want := 2 - depth; n != want {
			t.Errorf("depth %d: %d commits, want %d", depth, n, want)
		}
		if err := c.Close(); err != nil || exists(c.dir) {
			t.Errorf("the temporary clone stays (%v)", err)
		}
	}
	_ = first
}

func TestResolve(t *testing.T) {
	r := open(t, Options{})
	if _, err := r.Resolve(t.Context(), ""); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("an empty repository: %v", err)
	}
	one, two := put(t, r, "one", file("a", "1")), put(t, r, "two", file("a", "2"))
	if _, err := r.Tag("backup/2026-01-02", one, Meta{Message: "heartbeat", When: epoch}); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]ID{
		"": two, string(one): one, string(one[:7]): one, "backup/2026-01-02": one,
		epoch.Format(time.RFC3339): one, epoch.Add(time.Hour).Format(time.RFC3339): two,
		"2026-01-02": two,
	} {
		if got, err := r.Resolve(t.Context(), at); err != nil || got != want {
			t.Errorf("Resolve(%q) is %s (%v), want %s", at, got.Short(), err, want.Short())
		}
	}
	for at, want := range map[string]error{
		"2026-01-01": mesh.ErrNotFound, "0000000": mesh.ErrNotFound, "yesterday": mesh.ErrInvalid,
		"../../x": mesh.ErrInvalid, string(one[:6]): mesh.ErrInvalid, "--all": mesh.ErrInvalid,
	} {
		if _, err := r.Resolve(t.Context(), at); !errors.Is(err, want) {
			t.Errorf("Resolve(%q): %v, want %v", at, err, want)
		}
	}
}

func TestDiff(t *testing.T) {
	r := open(t, Options{})
	one := put(t, r, "one", file("a", "1"), file("b/c", "2"), file("d", "3"), file("e/f", "4"))
	two := put(t, r, "two", file("a", "x"), gone("b/c"), file("b", "now a file"), gone("d"), file("d/e", "now a folder"))
	got := make(map[string]string)
	err := r.Diff(t.Context(), one, two, func(path string, before, after []byte) error {
		got[path] = string(before) + "→" + string(after)
		return nil
	})
	want := map[string]string{"a": "1→x", "b/c": "2→", "b": "→now a file", "d": "3→", "d/e": "→now a folder"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("diff is %v (%v), want %v", got, err, want)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	r := open(t, Options{})
	if _, err := Open(t.Context(), r.dir, Options{}); !errors.Is(err, mesh.ErrConflict) {
		t.Errorf("opened twice: %v, want ErrConflict", err)
	}
}

func TestTagIsPushedOnce(t *testing.T) {
	r, there := open(t, Options{}), bare(t)
	one := put(t, r, "one", file("a", "1"))
	push(t, r, local(there))
	for range 2 {
		if _, err := r.Tag("backup/2026-01-02", one, Meta{Message: "heartbeat", When: epoch}); err != nil {
			t.Fatal(err)
		}
		if err := r.PushTag(t.Context(), local(there), "backup/2026-01-02", nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := git(t, there, "rev-parse", "backup/2026-01-02^{commit}"); got != string(one) {
		t.Errorf("the tag is on %s", got)
	}
	two := put(t, r, "two", file("a", "2"))
	push(t, r, local(there))
	git(t, there, "tag", "light", string(one))
	git(t, there, "tag", "of-files", string(two)+"^{tree}")
	c, err := Clone(t.Context(), local(there), "", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"backup/2026-01-02", "light"} {
		if got, err := c.Resolve(t.Context(), name); err != nil || got != one {
			t.Errorf("the tag %s is on %s (%v) in a clone, want %s", name, got.Short(), err, one.Short())
		}
	}
	if got, err := c.Resolve(t.Context(), "of-files"); err == nil {
		t.Errorf("a tag that is on no commit is on %s", got.Short())
	}
	if _, err := r.Tag("backup/2026-01-02", two, Meta{Message: "heartbeat", When: epoch}); err != nil {
		t.Fatal(err)
	}
	if err := r.PushTag(t.Context(), local(there), "backup/2026-01-02", nil); !errors.Is(err, mesh.ErrConflict) {
		t.Errorf("a tag was moved: %v, want ErrConflict", err)
	}
	git(t, there, "fsck", "--strict")
}

func TestHavesAreFew(t *testing.T) {
	r := open(t, Options{})
	for i := range 300 {
		put(t, r, "n", file("a", fmt.Sprint(i)))
		if i%10 == 0 {
			must(t, r.setRef(fmt.Sprint("refs/remotes/r", i), r.Head()))
		}
	}
	haves := r.haves()
	if len(haves) > 60 || haves[0] != r.Head() || len(haves) != len(slices.Compact(slices.Sorted(slices.Values(haves)))) {
		t.Errorf("%d haves, want a few, the head first, each once", len(haves))
	}
}
