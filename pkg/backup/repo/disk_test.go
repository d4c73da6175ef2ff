package repo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/pkg/backup"
)

// TestDiskFull fills a small disk by commits, and by a fetch. The error says
// what it is, the clone is as before, and with room it goes on.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		// Root of a container may not mount either.
		if !errors.Is(err, unix.EPERM) {
			t.Fatalf("mount a small disk: %v", err)
		}
		t.Skipf("mount a small disk, which needs root: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	ballast := filepath.Join(dir, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600))
	remote := bare(t)
	r := openAt(t, filepath.Join(dir, "repo.git"), Options{Mine: mineOnly})
	state(t, r, "a", "1")
	push(t, r, local(remote))
	noise := rand.NewChaCha8([32]byte{1})
	big := func(n int) backup.File {
		b := make([]byte, 512<<10)
		_, _ = noise.Read(b) // never fails
		return backup.File{Path: fmt.Sprint("our/big", n), Data: b}
	}
	var err error
	head := r.Head()
	for n := 0; err == nil && n < 20; n++ {
		head = r.Head()
		_, err = tryPut(t.Context(), r, "big", big(n))
	}
	if ReasonOf(err) != ReasonDiskFull {
		t.Fatalf("commit on a full disk: %v (%s)", err, ReasonOf(err))
	}
	if r.Head() != head {
		t.Errorf("the head moved to %s", r.Head())
	}
	// The remote has more than there is room for.
	c := open2(t, remote)
	if _, err := tryPut(t.Context(), c, "big", big(90), big(91), big(92), big(93)); err != nil {
		t.Fatal(err)
	}
	push(t, c, local(remote))
	if _, err := r.Fetch(t.Context(), local(remote)); ReasonOf(err) != ReasonDiskFull {
		t.Fatalf("fetch on a full disk: %v (%s)", err, ReasonOf(err))
	}
	must(t, r.Close())
	must(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=30m"))
	again := openAt(t, r.dir, Options{Mine: mineOnly})
	if again.SetAside() != "" || again.Head() != head {
		t.Errorf("the head is %s, want %s; set aside %q", again.Head(), head, again.SetAside())
	}
	if in := integrateAny(t, again, local(remote)); in.Outcome != OutcomeMerged {
		t.Errorf("outcome %s, want merged", in.Outcome)
	}
	push(t, again, local(remote))
	git(t, again.dir, "fsck", "--strict")
	if left, _ := filepath.Glob(again.dir + "/objects/pack/tmp*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// integrateAny takes every commit for one of ours.
func integrateAny(t testing.TB, r *Repo, rm Remote) Integration {
	t.Helper()
	in, err := Integrator{Ours: anybody, When: epoch}.Integrate(t.Context(), r, rm)
	must(t, err)
	return in
}

// TestPackedHistoryIsTheSame packs a clone, by number and by hand.
func TestPackedHistoryIsTheSame(t *testing.T) {
	r := open(t, Options{Limits: Limits{Loose: 100}})
	var ids []ID
	for i := range 120 {
		list := strings.Repeat(fmt.Sprintln("line", i%7), 50) + fmt.Sprintln(i)
		ids = append(ids, put(t, r, "n", file("list", list), file(fmt.Sprint("d/", i), fmt.Sprint(i)), file("back", fmt.Sprint(i%2))))
	}
	packs, err := filepath.Glob(r.dir + "/objects/pack/*.pack")
	if err != nil || len(packs) < 4 {
		t.Errorf("%d packs (%v), want several", len(packs), err)
	}
	must(t, r.Pack(t.Context()))
	if loose, err := r.looseObjects(); err != nil || len(loose) > 0 {
		t.Errorf("%d objects are still in files of their own (%v)", len(loose), err)
	}
	must(t, r.Pack(t.Context())) // nothing to do
	git(t, r.dir, "fsck", "--strict", "--full")
	for i, id := range ids {
		got := content(t, r, id)
		if len(got) != i+3 || got[fmt.Sprint("d/", i)] != fmt.Sprint(i) || !strings.HasSuffix(got["list"], fmt.Sprintln(i)) {
			t.Fatalf("commit %d holds %d files", i, len(got))
		}
	}
}

func anybody(context.Context, *Tree) error { return nil }

// TestPacksStayFew makes many packs, with a remote's among them.
func TestPacksStayFew(t *testing.T) {
	r, dir := open(t, Options{Limits: Limits{Loose: 5, Packs: 6}}), bare(t)
	list := func(i int) string { return strings.Repeat(fmt.Sprintln("line", i%7), 50) + fmt.Sprintln(i) }
	var ids []ID
	for i := range 60 {
		if i%20 == 10 {
			push(t, r, local(dir))
			c, err := Clone(t.Context(), local(dir), "", 0, Options{})
			must(t, err)
			put(t, c, "other", file("other", list(i)))
			push(t, c, local(dir))
			must(t, c.Close())
			integrateAny(t, r, local(dir))
		}
		ids = append(ids, put(t, r, "n", file("list", list(i)), file(fmt.Sprint("d/", i), fmt.Sprint(i))))
		packs, err := filepath.Glob(r.dir + "/objects/pack/*")
		must(t, err)
		if len(packs) > 2*9 {
			t.Fatalf("%d files of packs", len(packs))
		}
	}
	git(t, r.dir, "fsck", "--strict", "--full")
	packs, err := filepath.Glob(r.dir + "/objects/pack/*.pack")
	must(t, err)
	for _, p := range packs {
		git(t, r.dir, "verify-pack", p)
	}
	must(t, r.Close())
	again := openAt(t, r.dir, Options{})
	for i, id := range ids {
		if got := content(t, again, id); got["list"] != list(i) {
			t.Fatalf("commit %d holds %q", i, got["list"])
		}
	}
}
