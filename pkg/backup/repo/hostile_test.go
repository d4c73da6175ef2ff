package repo

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// forge is a commit whose root tree is these raw entries, in a repository that
// others fetch from.
func forge(t testing.TB, dir string, tree []byte) {
	t.Helper()
	h := hashObject(t, dir, "tree", tree)
	c := fmt.Sprintf("tree %s\nauthor a <a@example.net> 1 +0000\ncommitter a <a@example.net> 1 +0000\n\nx\n", h)
	git(t, dir, "update-ref", "refs/heads/main", hashObject(t, dir, "commit", []byte(c)))
}

// hashObject writes an object as it is, whatever git thinks of it.
func hashObject(t testing.TB, dir, kind string, data []byte) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, "git", "git"), "hash-object", "-w", "--literally", "-t", kind, "--stdin")
	cmd.Dir, cmd.Env, cmd.Stdin = dir, safeEnv(), bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func rawEntry(mode, name, hash string) []byte {
	b, _ := hex.DecodeString(hash)
	return append([]byte(mode+" "+name+"\x00"), b...)
}

// TestHostileTrees reads trees that no git makes. Each is refused with a
// reason; none hangs, takes much memory, or leads outside.
func TestHostileTrees(t *testing.T) {
	for name, c := range map[string]struct {
		tree func(t *testing.T, dir, blob string) []byte
		want Reason
	}{
		"..":          {func(_ *testing.T, _, b string) []byte { return rawEntry("100644", "..", b) }, ReasonHostile},
		".":           {func(_ *testing.T, _, b string) []byte { return rawEntry("100644", ".", b) }, ReasonHostile},
		"a slash":     {func(_ *testing.T, _, b string) []byte { return rawEntry("100644", "a/../../etc/passwd", b) }, ReasonHostile},
		"absolute":    {func(_ *testing.T, _, b string) []byte { return rawEntry("100644", "/etc/passwd", b) }, ReasonHostile},
		"a backslash": {func(_ *testing.T, _, b string) []byte { return rawEntry("100644", `a\..\b`, b) }, ReasonHostile},
		".git": {func(t *testing.T, dir, b string) []byte {
			return rawEntry("40000", ".GIT", hashObject(t, dir, "tree", rawEntry("100644", "config", b)))
		}, ReasonHostile},
		"a name too long": {func(_ *testing.T, _, b string) []byte { return rawEntry("100644", strings.Repeat("x", 300), b) }, ReasonHostile},
		"twice": {func(_ *testing.T, _, b string) []byte {
			return append(rawEntry("100644", "a", b), rawEntry("100644", "a", b)...)
		}, ReasonHostile},
		"upper and lower": {func(_ *testing.T, _, b string) []byte {
			return append(rawEntry("100644", "A", b), rawEntry("100644", "a", b)...)
		}, ReasonHostile},
		"a symbolic link":   {func(_ *testing.T, _, b string) []byte { return rawEntry("120000", "a", b) }, ReasonHostile},
		"a submodule":       {func(_ *testing.T, _, b string) []byte { return rawEntry("160000", "a", b) }, ReasonHostile},
		"a mode of nothing": {func(_ *testing.T, _, b string) []byte { return rawEntry("777", "a", b) }, ReasonHostile},
		"a giant file": {func(t *testing.T, dir, _ string) []byte {
			return rawEntry("100644", "a", hashObject(t, dir, "blob", make([]byte, 300<<10)))
		}, ReasonLimit},
		"deep": {func(t *testing.T, dir, b string) []byte {
			tree := rawEntry("100644", "a", b)
			for range 50 {
				tree = rawEntry("40000", "d", hashObject(t, dir, "tree", tree))
			}
			return tree
		}, ReasonLimit},
		"ten to the tenth files": {func(t *testing.T, dir, b string) []byte {
			mode := "100644"
			var tree []byte
			for range 10 {
				tree = nil
				for i := range 10 {
					tree = append(tree, rawEntry(mode, fmt.Sprint(i), b)...)
				}
				b, mode = hashObject(t, dir, "tree", tree), "40000"
			}
			return tree
		}, ReasonLimit},
		"too many bytes": {func(t *testing.T, dir, _ string) []byte {
			b := hashObject(t, dir, "blob", make([]byte, 200<<10))
			var tree []byte
			for i := range 10 {
				tree = append(tree, rawEntry("100644", fmt.Sprint(i), b)...)
			}
			return tree
		}, ReasonLimit},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bare(t)
			forge(t, dir, c.tree(t, dir, hashObject(t, dir, "blob", []byte("x"))))
			limits := Limits{File: 256 << 10, Tree: 1 << 20, Files: 1000}
			r := open(t, Options{Limits: limits})
			head, err := r.Fetch(t.Context(), local(dir))
			if err == nil {
				err = treeAt(t, r, head).Each(t.Context(), "", func(path string, _ []byte) error {
					if !safePath(path) {
						t.Errorf("it hands out %q", path)
					}
					return nil
				})
			}
			if ReasonOf(err) != c.want || !errors.Is(err, mesh.ErrInvalid) {
				t.Errorf("%v (%s), want %s and ErrInvalid", err, ReasonOf(err), c.want)
			}
			// A backup goes on over it all the same, or says why not.
			mine := open(t, Options{Mine: mineOnly, Limits: limits})
			state(t, mine, "a", "1")
			in, err := Integrator{Ours: ours, When: epoch}.Integrate(t.Context(), mine, local(dir))
			if err == nil {
				if err := ours(t.Context(), treeAt(t, mine, in.Head)); err != nil {
					t.Errorf("taken in as %s: %v", in.Outcome, err)
				}
			} else if ReasonOf(err) != c.want {
				t.Errorf("integrate: %v (%s), want %s", err, ReasonOf(err), c.want)
			}
		})
	}
}

// TestHostilePacks: sizes are looked at before anything is unpacked.
func TestHostilePacks(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		make   func(t *testing.T, dir string)
	}{
		"an object of 64 MiB in 64 KiB": {Limits{}, func(t *testing.T, dir string) {
			forge(t, dir, rawEntry("100644", "a", hashObject(t, dir, "blob", make([]byte, 64<<20))))
		}},
		"more bytes than allowed": {Limits{Pack: 1000}, func(t *testing.T, dir string) {
			stranger(t, dir, func(work string) {
				for i := range 100 {
					set(t, fmt.Sprint(work, "/", i), fmt.Sprint(i))
				}
			})
		}},
		"more objects than allowed": {Limits{Objects: 50}, func(t *testing.T, dir string) {
			stranger(t, dir, func(work string) {
				for i := range 100 {
					set(t, fmt.Sprint(work, "/", i), fmt.Sprint(i))
				}
			})
		}},
		"more unpacked than allowed": {Limits{Unpack: 1 << 20}, func(t *testing.T, dir string) {
			stranger(t, dir, func(work string) {
				for i := range 3 {
					set(t, fmt.Sprint(work, "/", i), strings.Repeat(fmt.Sprint(i), 500<<10))
				}
			})
		}},
		"changes that make giants": {Limits{File: 1 << 20}, func(t *testing.T, dir string) {
			b := make([]byte, 900<<10)
			stranger(t, dir, func(work string) { set(t, work+"/a", string(b)) })
			stranger(t, dir, func(work string) { set(t, work+"/a", string(make([]byte, 1100<<10))) })
			git(t, dir, "repack", "-q", "-a", "-d", "-f")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bare(t)
			c.make(t, dir)
			r := open(t, Options{Limits: c.limits})
			start := time.Now()
			if _, err := r.Fetch(t.Context(), local(dir)); ReasonOf(err) != ReasonLimit {
				t.Errorf("fetch: %v (%s), want limit", err, ReasonOf(err))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			put(t, r, "one", file("a", "1")) // it works on
		})
	}
}

// TestBrokenPacks serves packs that are none, over the protocol.
func TestBrokenPacks(t *testing.T) {
	var whole bytes.Buffer
	r := open(t, Options{})
	id := put(t, r, "one", file("a", strings.Repeat("text ", 100)))
	commits, err := r.between(t.Context(), id, nil)
	must(t, err)
	parcels, err := r.parcels(t.Context(), commits, false)
	must(t, err)
	must(t, r.writePack(t.Context(), &whole, parcels))
	flipped := bytes.Clone(whole.Bytes())
	flipped[len(flipped)/2] ^= 1
	cycle := packOf(t, func(p *packWriter) {
		must(t, p.entry(plumbing.REFDeltaObject, bytes.Repeat([]byte{7}, 20), []byte{1, 1, 0x90, 1}))
	})
	for name, pack := range map[string][]byte{
		"too short": []byte("PACK"), "a change of nothing": cycle,
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, Options{})
			err := r.storePack(t.Context(), bytes.NewReader(pack))
			if err == nil || ReasonOf(err) == ReasonOther || ReasonOf(err) == ReasonDamaged {
				t.Errorf("stored: %v (%s)", err, ReasonOf(err))
			}
			if left, _ := os.ReadDir(r.dir + "/objects/pack"); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
			put(t, r, "one", file("a", "1")) // it works on
		})
	}
}

// packOf is a pack of one entry.
func packOf(t testing.TB, f func(*packWriter)) []byte {
	t.Helper()
	r := open(t, Options{})
	var empty bytes.Buffer
	must(t, r.writePack(context.Background(), &empty, nil))
	b := bytes.Clone(empty.Bytes()[:12])
	b[11] = 1
	var body bytes.Buffer
	f(newPackWriter(&body))
	b = append(b, body.Bytes()...)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}
