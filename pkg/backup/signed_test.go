package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// vouch puts another file there and makes everything above it agree, up to the
// signature, as somebody with a server's key could.
func (w *world) vouch(tree backup.Files, path string, data []byte) {
	w.t.Helper()
	old, now := sum(tree[path]), sum(data)
	tree[path] = data
	for above, text := range tree {
		if !bytes.Contains(text, []byte(old)) {
			continue
		}
		if above == "manifest.yaml" {
			w.resign(tree, func(s string) string { return strings.ReplaceAll(s, old, now) })
		} else {
			w.vouch(tree, above, bytes.ReplaceAll(text, []byte(old), []byte(now)))
		}
		return
	}
	w.t.Fatalf("nothing names %s", path)
}

// TestASignatureIsNotEnough: what a server signed is still read with care.
func TestASignatureIsNotEnough(t *testing.T) {
	w, good := stored(t)
	seal := func(text string) []byte {
		out, err := backup.SealFor(w.state, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	age, yaml := one(t, good, "devices/", ".age", 0), one(t, good, "devices/", ".yaml", 0)
	shard := "index/" + yaml[:strings.LastIndex(yaml, "/")] + ".yaml"
	segment := one(t, good, "audit/", ".age", 1)
	for name, c := range map[string]struct {
		path string
		data []byte
		text string
	}{
		"another text in a ciphertext":     {age, seal("name: eve\n"), "holds something else"},
		"a ciphertext that is none":        {age, []byte("x"), "does not open"},
		"a ciphertext for somebody else":   {age, sealedFor(t, "name: eve\n"), "does not open"},
		"no object in public":              {yaml, []byte("- a\n"), "want an object"},
		"what is private in public too":    {yaml, []byte("name: eve\n"), "so does what is public"},
		"keys that are others":             {"keys.age", seal("dataKeys: [" + strings.Repeat("A", 43) + "=]\nsealedRoot: \"\"\n"), "something else than the manifest says"},
		"keys of another length":           {"keys.age", seal("dataKeys: [QUFB]\n"), "has 3 bytes"},
		"no keys in it":                    {"keys.age", seal("dataKeys: []\n"), "no data key"},
		"keys that cannot be read":         {"keys.age", seal("canary: [\n"), "not as it was written"},
		"keys that are no keys":            {"keys.age", seal("dataKeys: canary\n"), "does not hold keys"},
		"a root that is none":              {"root.crt", []byte("x"), "no certificate"},
		"another mesh's root":              {"root.crt", newWorld(t).pem, "not the root that was asked for"},
		"an object in another's place":     {shard, append([]byte("device-000: "+sum(good[yaml])+"\n"), good[shard]...), "does not belong there"},
		"an index that is none":            {shard, []byte("x\n"), "line 1"},
		"a folder's index that is none":    {"index/devices.yaml", []byte("x\n"), "line 1"},
		"an audit index that is none":      {"index/audit.yaml", []byte("a: b\n"), "want a day"},
		"a segment that does not follow":   {segment, seal("{\"format\":1,\"count\":1}\n{\"id\":\"x\"}\n"), "does not follow"},
		"a segment that cannot be read":    {segment, seal("canary\n"), "cannot be read"},
		"a segment that is no ciphertext":  {segment, []byte("x"), "does not open"},
		"a recipient that is somebody new": {"recipients/alice.txt", []byte("age1eve\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree := maps.Clone(good)
			w.vouch(tree, c.path, c.data)
			s, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, w.opts())
			if c.text == "" {
				if err != nil || s.Recipients[0].Key != "age1eve" {
					t.Errorf("got %v", err)
				}
				return
			}
			f, ok := errors.AsType[*backup.FaultsError](err)
			if !ok || !strings.Contains(err.Error(), strings.TrimSuffix(c.path, ".yaml")) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "canary") {
				t.Fatalf("got %v, want %q", err, c.text)
			}
			if f.Count > 30 {
				t.Errorf("%d faults", f.Count)
			}
		})
	}
}

func sealedFor(t *testing.T, text string) []byte {
	t.Helper()
	out, err := backup.SealFor(newWorld(t).state, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAManifestThatMiscounts(t *testing.T) {
	w, tree := stored(t)
	w.resign(tree, func(s string) string {
		return strings.Replace(strings.Replace(s, "objects: 20\n", "objects: 21\n", 1), "objects: 22\n", "objects: 23\n", 1)
	})
	if _, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, w.opts()); err == nil || !strings.Contains(err.Error(), "the manifest says 21") {
		t.Errorf("got %v", err)
	}
}

// failing is a tree that cannot be read from some call on.
type failing struct {
	backup.Files
	left int
}

var errTree = errors.New("the disk is gone")

func (f *failing) fails() bool { f.left--; return f.left < 0 }

func (f *failing) File(ctx context.Context, path string) ([]byte, error) {
	if f.fails() {
		return nil, errTree
	}
	return f.Files.File(ctx, path)
}

func (f *failing) Each(ctx context.Context, prefix string, each func(string, []byte) error) error {
	return f.Files.Each(ctx, prefix, func(path string, data []byte) error {
		if f.fails() {
			return errTree
		}
		return each(path, data)
	})
}

// TestATreeThatFails is no fault of the backup: somebody may try again.
func TestATreeThatFails(t *testing.T) {
	w, tree := stored(t)
	ids, opts := []backup.Identity{w.alice}, w.opts()
	calls := 0
	for n := 0; ; n++ {
		f := &failing{tree, n}
		_, err := backup.Read(t.Context(), f, ids, opts)
		if err == nil {
			calls = n
			break
		}
		if !errors.Is(err, errTree) || errors.Is(err, mesh.ErrInvalid) {
			t.Fatalf("after %d calls: %v", n, err)
		}
	}
	if calls < len(tree) {
		t.Errorf("only %d calls for %d files", calls, len(tree))
	}
	for n := range 3 {
		if _, err := w.r.Draft(t.Context(), &failing{tree, n}, w.state, nil, func(backup.File) error { return nil }); !errors.Is(err, errTree) {
			t.Errorf("draft after %d calls: %v", n, err)
		}
		if _, err := backup.ObjectAt(t.Context(), &failing{tree, n}, ids, opts, "config", "mesh"); !errors.Is(err, errTree) {
			t.Errorf("an object after %d calls: %v", n, err)
		}
	}
	m, server, err := backup.ManifestOf(t.Context(), tree, opts)
	if err != nil || m.Mesh != w.mesh || server != m.Server || m.Objects != 22 {
		t.Errorf("got %+v, %s, %v", m, server, err)
	}
	if _, _, err := backup.ManifestOf(t.Context(), backup.Files{}, opts); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
