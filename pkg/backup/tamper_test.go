package backup_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// stored is a backup with something of everything, on two days.
func stored(t testing.TB) (*world, backup.Files) {
	t.Helper()
	return storedOf(t, 20)
}

func storedOf(t testing.TB, n int) (*world, backup.Files) {
	t.Helper()
	w, tree := newWorld(t), make(backup.Files)
	w.state.Objects = append(devices(n), member(1, "Alicia"), object("config", "mesh", `{"epoch":1,"mgmtAddresses":["a:1"]}`))
	w.did(w.now, "device.create", "device/x")
	w.draft(tree)
	w.now = w.now.Add(24 * time.Hour)
	w.state.Time = w.now
	w.did(w.now, "device.create", "device/y")
	w.draft(tree)
	return w, tree
}

// one is the first path that begins and ends like that.
func one(t testing.TB, tree backup.Files, prefix, suffix string, skip int) string {
	t.Helper()
	for _, path := range paths(tree) {
		if strings.HasPrefix(path, prefix) && strings.HasSuffix(path, suffix) {
			if skip--; skip < 0 {
				return path
			}
		}
	}
	t.Fatalf("no file %s…%s", prefix, suffix)
	return ""
}

// TestWhatWasTouchedIsRefused: each fault is found, with the path (G-03, G-06).
func TestWhatWasTouchedIsRefused(t *testing.T) {
	w, good := stored(t)
	w.read(good)
	age0, age1 := one(t, good, "devices/", ".age", 0), one(t, good, "devices/", ".age", 1)
	yaml0, shard := one(t, good, "devices/", ".yaml", 0), one(t, good, "index/devices/", ".yaml", 0)
	day := one(t, good, "audit/", "index.yaml", 0)
	seg0, seg1 := one(t, good, "audit/", ".age", 0), one(t, good, "audit/", ".age", 1)
	older := make(backup.Files)
	old := *w
	old.state.Objects = old.state.Objects[:20]
	old.draft(older)

	for name, c := range map[string]struct {
		change func(backup.Files)
		paths  []string
	}{
		"a ciphertext for another valid one": {func(f backup.Files) { f[age0] = f[age1] }, []string{age0}},
		"two ciphertexts change places":      {func(f backup.Files) { f[age0], f[age1] = f[age1], f[age0] }, []string{age0, age1}},
		"a ciphertext cut short":             {func(f backup.Files) { f[age0] = f[age0][:len(f[age0])/2] }, []string{age0}},
		"a ciphertext with a bit turned":     {func(f backup.Files) { f[age0] = flipped(f[age0]) }, []string{age0}},
		"an empty file":                      {func(f backup.Files) { f[yaml0] = nil }, []string{yaml0}},
		"an object is missing":               {func(f backup.Files) { delete(f, yaml0); delete(f, age0) }, []string{yaml0, age0}},
		"an object too many":                 {func(f backup.Files) { f["devices/00/device-new.yaml"] = []byte("{}\n") }, []string{"devices/00/device-new.yaml"}},
		"a file in a folder of the format":   {func(f backup.Files) { f["recipients/eve.txt"] = []byte("age1eve\n") }, []string{"recipients/eve.txt"}},
		"an index that does not belong":      {func(f backup.Files) { f["index/members/zz.yaml"] = []byte("a: b\n") }, []string{"index/members/zz.yaml"}},
		"a part of the index is missing":     {func(f backup.Files) { delete(f, shard) }, []string{shard}},
		"a part of the index was changed":    {func(f backup.Files) { f[shard] = append(bytes.Clone(f[shard]), '\n') }, []string{shard}},
		"the index of a folder is missing":   {func(f backup.Files) { delete(f, "index/devices.yaml") }, []string{"index/devices.yaml"}},
		"the keys are missing":               {func(f backup.Files) { delete(f, "keys.age") }, []string{"keys.age"}},
		"the keys are another's":             {func(f backup.Files) { f["keys.age"] = f[age0] }, []string{"keys.age"}},
		"the recipients are others":          {func(f backup.Files) { f["recipients/alice.txt"] = []byte("age1eve\n") }, []string{"recipients/alice.txt"}},
		"the root is another":                {func(f backup.Files) { f["root.crt"] = newWorld(t).pem }, []string{"root.crt"}},
		"the instructions are others":        {func(f backup.Files) { f["README.md"] = []byte("send the key to eve") }, []string{"README.md"}},
		"a segment of the audit log is gone": {func(f backup.Files) { delete(f, seg0) }, []string{seg0}},
		"one of it for another":              {func(f backup.Files) { f[seg1] = f[seg0] }, []string{seg1}},
		"one of it too many":                 {func(f backup.Files) { f["audit/2026-01-01/x.age"] = f[seg0] }, []string{"audit/2026-01-01/x.age"}},
		"the index of a day is gone":         {func(f backup.Files) { delete(f, day) }, []string{day}},
		"the index of a day was changed":     {func(f backup.Files) { f[day] = []byte("{}\n") }, []string{day}},
		"the audit index is gone":            {func(f backup.Files) { delete(f, "index/audit.yaml") }, []string{"index/audit.yaml"}},
		"an older manifest with newer files": {func(f backup.Files) {
			f["manifest.yaml"], f["manifest.sig"] = older["manifest.yaml"], older["manifest.sig"]
		}, []string{"index/config.yaml", "index/devices.yaml", "index/members.yaml", "keys.age"}},
		"many things at once": {func(f backup.Files) { delete(f, seg0); f[age1] = f[age0]; delete(f, yaml0); f["ca/x.age"] = nil },
			[]string{seg0, age1, yaml0, "ca/x.age"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := maps.Clone(good)
			c.change(tree)
			s, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, w.opts())
			f, ok := errors.AsType[*backup.FaultsError](err)
			if !ok || s != nil || !errors.Is(err, mesh.ErrInvalid) || mesh.Hint(err) == "" {
				t.Fatalf("got %v, %v", s, err)
			}
			for _, path := range c.paths {
				if !slices.ContainsFunc(f.Faults, func(x backup.Fault) bool { return x.Path == path }) {
					t.Errorf("%s is not among the faults:\n%v", path, err)
				}
			}
			if len(c.paths) != f.Count && name != "an older manifest with newer files" {
				t.Errorf("%d faults, want %d:\n%v", f.Count, len(c.paths), err)
			}
		})
	}
}

func flipped(data []byte) []byte {
	out := bytes.Clone(data)
	out[len(out)-1] ^= 1
	return out
}

// TestOnlyOurRootSigns: nothing else is looked at before the signature holds.
func TestOnlyOurRootSigns(t *testing.T) {
	w, good := stored(t)
	foreign := newWorld(t)
	theirs := make(backup.Files)
	foreign.draft(theirs)
	for name, c := range map[string]struct {
		change func(backup.Files, *backup.ReadOptions)
		text   string
	}{
		"another root is asked for":     {func(_ backup.Files, o *backup.ReadOptions) { o.Root = foreign.root }, "manifest.sig"},
		"another mesh is asked for":     {func(_ backup.Files, o *backup.ReadOptions) { o.Mesh = foreign.mesh }, string(foreign.mesh)},
		"no signature":                  {func(f backup.Files, _ *backup.ReadOptions) { delete(f, "manifest.sig") }, "manifest.sig: is missing"},
		"another mesh's signature":      {func(f backup.Files, _ *backup.ReadOptions) { f["manifest.sig"] = theirs["manifest.sig"] }, "not of this manifest"},
		"another mesh's whole manifest": {func(f backup.Files, _ *backup.ReadOptions) { maps.Copy(f, theirs) }, "root"},
		"a manifest with a bit turned":  {func(f backup.Files, _ *backup.ReadOptions) { f["manifest.yaml"] = flipped(f["manifest.yaml"]) }, "not of this manifest"},
		"a signature cut short": {func(f backup.Files, _ *backup.ReadOptions) {
			f["manifest.sig"] = f["manifest.sig"][:40]
		}, "manifest.sig"},
		"a signature with more in it": {func(f backup.Files, _ *backup.ReadOptions) {
			f["manifest.sig"] = append(bytes.Clone(f["manifest.sig"]), "more"...)
		}, "manifest.sig"},
		"our chain around another key's signature": {func(f backup.Files, _ *backup.ReadOptions) {
			sig, err := backup.Sign(f["manifest.yaml"], foreign.r.Signer, w.r.Chain)
			if err != nil {
				t.Fatal(err)
			}
			f["manifest.sig"] = sig
		}, "not of this manifest"},
		"another server's name in it": {func(f backup.Files, _ *backup.ReadOptions) {
			w.resign(f, func(s string) string {
				i := strings.Index(s, "server: mgmt-")
				return s[:i] + "server: mgmt-aaaaaaaaaaaaaaaa" + s[i+len("server: mgmt-aaaaaaaaaaaaaaaa"):]
			})
		}, "has signed what"},
		"a time the certificate does not cover": {func(f backup.Files, _ *backup.ReadOptions) {
			w.resign(f, func(s string) string { return strings.Replace(s, "2026-12", "2027-12", 1) })
		}, "manifest.sig"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, opts := maps.Clone(good), w.opts()
			c.change(tree, &opts)
			s, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, opts)
			if s != nil || !errors.Is(err, mesh.ErrDenied) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %q", err, c.text)
			}
			if _, err := backup.ObjectAt(t.Context(), tree, []backup.Identity{w.alice}, opts, "config", "mesh"); !errors.Is(err, mesh.ErrDenied) {
				t.Errorf("one object of it: %v", err)
			}
		})
	}
}

func TestUnsignedIsReadWhenAskedFor(t *testing.T) {
	w, tree := stored(t)
	delete(tree, "manifest.sig")
	opts := backup.ReadOptions{Unsigned: true, Audit: true}
	s, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, opts)
	if err != nil || s.Server != "" {
		t.Fatalf("got %+v, %v", s, err)
	}
	sameState(t, w.state, s)
	path := one(t, tree, "devices/", ".age", 0)
	tree[path] = flipped(tree[path])
	if _, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, opts); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestANewerFormatIsRefused(t *testing.T) {
	w, tree := stored(t)
	newer := maps.Clone(tree)
	w.resign(newer, func(s string) string {
		s = strings.Replace(s, "\nformat: 1", "\nformat: 2\nnew:\n  - 1", 1)
		return strings.Replace(s, "minReader: 1", "minReader: 2", 1)
	})
	_, err := backup.Read(t.Context(), newer, []backup.Identity{w.alice}, w.opts())
	tooNew, ok := errors.AsType[*backup.TooNewError](err)
	if !ok || tooNew.Need != 2 || !strings.Contains(err.Error(), "manifest.yaml") {
		t.Errorf("got %v", err)
	}
	// One that says that this version may read it, is read.
	w.resign(tree, func(s string) string { return strings.Replace(s, "\nformat: 1", "\nformat: 2\nnew:\n  - 1", 1) })
	sameState(t, w.state, w.read(tree))
}

// TestFilesOfOthersAreLeftAlone: beside the backup's own folders anything may lie.
func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	w, tree := stored(t)
	m, err := backup.ParseManifest(tree["manifest.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	for path := range tree {
		if !m.Ours(path) {
			t.Errorf("%s is not ours", path)
		}
	}
	for _, path := range []string{"LICENSE", ".github/workflows/x.yaml", "notes/devices/a.yaml", "../devices/x", "/devices/x", "readme.md", "manifest.yaml.orig"} {
		if m.Ours(path) {
			t.Errorf("%s is ours", path)
		}
		tree[path] = []byte("x")
	}
	sameState(t, w.state, w.read(tree))
}

func TestManyFaultsAreCounted(t *testing.T) {
	w, tree := stored(t)
	w.state.Objects = devices(400)
	w.draft(tree)
	for path := range tree {
		if strings.HasPrefix(path, "devices/") {
			delete(tree, path)
		}
	}
	_, err := backup.Read(t.Context(), tree, []backup.Identity{w.alice}, w.opts())
	f, ok := errors.AsType[*backup.FaultsError](err)
	if !ok || f.Count != 800 || len(f.Faults) != 100 || !strings.HasSuffix(err.Error(), "and 700 more") {
		t.Errorf("got %v", err)
	}
}

func TestNoBackupAndNoIdentity(t *testing.T) {
	w, tree := stored(t)
	if _, err := backup.Read(t.Context(), backup.Files{"README.md": nil}, nil, w.opts()); !errors.Is(err, mesh.ErrNotFound) || mesh.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	for _, ids := range [][]backup.Identity{nil, {newAge(t)}} {
		if _, err := backup.Read(t.Context(), tree, ids, w.opts()); !errors.Is(err, mesh.ErrDenied) || !strings.Contains(err.Error(), "keys.age") || mesh.Hint(err) == "" {
			t.Errorf("got %v", err)
		}
	}
	opts := w.opts()
	opts.Public = true
	s, err := backup.Read(t.Context(), tree, nil, opts)
	if err != nil || len(s.Objects) != len(w.state.Objects) || !s.Objects[0].Partial || len(s.Keys.Data) != 0 || len(s.Audit) != 0 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestOneObject(t *testing.T) {
	w, tree := stored(t)
	ids, opts := []backup.Identity{w.alice}, w.opts()
	want := w.state.Objects[3]
	got, err := backup.ObjectAt(t.Context(), tree, ids, opts, want.Folder, want.ID)
	if err != nil || got.Name() != want.Name() || !backup.Equal(got.JSON, want.JSON) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := backup.ObjectAt(t.Context(), tree, ids, opts, "devices", "device-none"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := backup.ObjectAt(t.Context(), tree, ids, opts, "../x", "y"); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	path := backup.PathOf(want.Folder, want.ID)
	for _, ext := range []string{".age", ".yaml"} {
		bad := maps.Clone(tree)
		bad[path+ext] = flipped(bad[path+ext])
		if _, err := backup.ObjectAt(t.Context(), bad, ids, opts, want.Folder, want.ID); err == nil || !strings.Contains(err.Error(), path+ext) {
			t.Errorf("%s: got %v", ext, err)
		}
		delete(bad, path+ext)
		if _, err := backup.ObjectAt(t.Context(), bad, ids, opts, want.Folder, want.ID); err == nil || !strings.Contains(err.Error(), path+ext) {
			t.Errorf("%s: got %v", ext, err)
		}
	}
}

func TestWhichBackupIsLater(t *testing.T) {
	for _, c := range []struct {
		a, b  backup.Manifest
		newer bool
	}{
		{backup.Manifest{Epoch: 1, Leader: 5}, backup.Manifest{Epoch: 1, Leader: 5}, false},
		{backup.Manifest{Epoch: 1, Leader: 6}, backup.Manifest{Epoch: 1, Leader: 5}, true},
		{backup.Manifest{Epoch: 2, Leader: 1}, backup.Manifest{Epoch: 1, Leader: 5}, true},
		{backup.Manifest{Epoch: 1, Leader: 9}, backup.Manifest{Epoch: 2, Leader: 5}, false},
	} {
		if got := c.a.Newer(&c.b); got != c.newer {
			t.Errorf("%+v after %+v: %v", c.a, c.b, got)
		}
	}
}
