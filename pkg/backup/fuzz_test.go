package backup_test

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/backup"
)

// FuzzObject: what can be read is written in one form, which reads as the same.
func FuzzObject(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(backup.ToYAML(newGenerator(seed).stored("x")))
		f.Add(backup.EncodeJSON(newGenerator(seed).stored("x")))
	}
	for _, s := range []string{
		"a: &x 1\nb: *x\n", "a: !!str 5\n", "a: 1\n---\nb: 2\n", "a: 1\na: 2\n", "{a: {b: [1, 2]}}", "? a\n: b\n", "- a\n", "a", "", "a: |\n  text\n  more\n",
		"<<: {a: 1}\n", "a: 0x10\nb: 010\nc: 1_0\nd: .5\ne: 1.\n", "a: \"\\x85\\u2028\"\n", strings.Repeat("a: {", 2000), "a: [[[[[[[[[[]]]]]]]]]]\n", "\xff\xfe", "%YAML 1.1\n---\na: 1\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := backup.FromYAML(data); err == nil {
			same(t, v)
		}
		if v, err := backup.ParseJSON(data); err == nil {
			same(t, v)
			for _, folder := range []string{"devices", "backup", "later"} {
				for _, plaintext := range []bool{false, true} {
					splits(t, folder, data, plaintext)
				}
			}
		}
	})
}

func same(t *testing.T, v map[string]any) {
	t.Helper()
	text := backup.ToYAML(v)
	back, err := backup.FromYAML(text)
	if err != nil {
		t.Fatalf("%v\n%q", err, text)
	}
	if !bytes.Equal(backup.EncodeJSON(v), backup.EncodeJSON(back)) {
		t.Fatalf("got  %q\nwant %q", backup.EncodeJSON(back), backup.EncodeJSON(v))
	}
	if again := backup.ToYAML(back); !bytes.Equal(text, again) {
		t.Fatalf("got  %q\nwant %q", again, text)
	}
}

func splits(t *testing.T, folder string, data []byte, plaintext bool) {
	t.Helper()
	v, err := backup.ParseJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	want := backup.EncodeJSON(v)
	open, closed := backup.Split(folder, v, plaintext)
	if both := backup.Merge(open, closed); both != "" || !bytes.Equal(backup.EncodeJSON(open), want) {
		t.Fatalf("got %s, both %q, want %s", backup.EncodeJSON(open), both, want)
	}
}

// seedFiles adds the files of a backup that match.
func seedFiles(f *testing.F, prefix, suffix string) {
	f.Helper()
	_, tree := stored(f)
	for _, path := range paths(tree) {
		if strings.HasPrefix(path, prefix) && strings.HasSuffix(path, suffix) {
			f.Add(tree[path])
		}
	}
}

// FuzzIndex: what is taken for an index is, to the byte, what would be written.
func FuzzIndex(f *testing.F) {
	seedFiles(f, "index/", ".yaml")
	f.Add([]byte("a: " + strings.Repeat("0", 64) + " partial\n"))
	f.Add([]byte("b: x\na: y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, again := range map[string]func([]byte) ([]byte, error){"shard": backup.ReencodeShard, "folder": backup.ReencodeFolderIndex} {
			if out, err := again(data); err == nil && !bytes.Equal(out, data) {
				t.Fatalf("%s: got %q, want %q", name, out, data)
			}
		}
		stable(t, data, backup.ReencodeAuditIndex)
	})
}

// stable: what was written again reads, and is written the same.
func stable(t *testing.T, data []byte, again func([]byte) ([]byte, error)) {
	t.Helper()
	one, err := again(data)
	if err != nil {
		return
	}
	two, err := again(one)
	if err != nil || !bytes.Equal(one, two) {
		t.Fatalf("got %q, %v, want %q", two, err, one)
	}
}

func FuzzManifest(f *testing.F) {
	seedFiles(f, "manifest.yaml", "")
	seedFiles(f, "manifest.sig", "")
	f.Add([]byte("format: 1\nminReader: 9\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		stable(t, data, func(b []byte) ([]byte, error) {
			m, err := backup.ParseManifest(b)
			if err != nil {
				return nil, err
			}
			return m.Encode()
		})
		if m, _, err := backup.VerifyManifest([]byte("format: 1\n"), data, [32]byte{1}); err == nil {
			t.Fatalf("believed: %+v", m)
		}
	})
}

func FuzzAuditSegment(f *testing.F) {
	w, tree := stored(f)
	for _, path := range paths(tree) {
		if strings.HasPrefix(path, "audit/") && strings.HasSuffix(path, ".age") {
			f.Add(decrypt(f, tree[path], w.alice))
		}
	}
	f.Add([]byte("{\"format\":1,\"count\":1}\n{\"id\":\"a\"}\n"))
	f.Add([]byte("{\"format\":1,\"count\":0}\n"))
	f.Fuzz(func(t *testing.T, data []byte) { stable(t, data, backup.ReencodeSegment) })
}

// FuzzTree: one file more, or another one in its place, is either none of ours
// or makes the backup unreadable; what is read is never anything else than what
// was signed. Paths that climb lead nowhere.
func FuzzTree(f *testing.F) {
	w, good := storedOf(f, 2)
	for _, path := range []string{
		"../x", "/etc/passwd", "devices/../../x", "devices/00/../00/a.yaml", "devices//a.yaml", ".git/config", "index/../x", "audit/../x", "audit/x/index.yaml",
		"manifest.yaml", "manifest.sig", "keys.age", "README.md", "recipients/../x.age", "members/1c/\x00.yaml", "devices/00/" + strings.Repeat("a", 300) + ".yaml",
		"Devices/00/a.yaml", "devices\\00\\a.yaml", "CON", "notes.txt", one(f, good, "devices/", ".age", 0), one(f, good, "index/devices/", "", 0),
	} {
		f.Add(path, []byte("x"))
		f.Add(path, good["keys.age"])
	}
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		tree := maps.Clone(good)
		tree[path] = data
		s, err := backup.Read(context.Background(), tree, []backup.Identity{w.alice}, w.opts())
		if err == nil {
			sameState(t, w.state, s)
			return
		}
		if s != nil {
			t.Fatalf("a state with %v", err)
		}
		need := make(backup.Files)
		for p, d := range tree {
			if backup.NeededForDraft(p) {
				need[p] = d
			}
		}
		if _, err := w.r.Draft(context.Background(), need, w.state, nil, func(c backup.File) error {
			if strings.Contains(c.Path, "..") || filepath.IsAbs(c.Path) || !filepath.IsLocal(c.Path) {
				t.Fatalf("it writes %q", c.Path)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzIdentity(f *testing.F) {
	f.Add([]byte(newAge(f).String()))
	_, protected, err := backup.NewProtectedAt(passphrase, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(protected))
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n-----END OPENSSH PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// A hostile file can ask for much work under a passphrase; it is not given.
		ids, err := backup.ParseIdentities(data, nil)
		if (err == nil) != (len(ids) > 0) {
			t.Fatalf("%d identities, %v", len(ids), err)
		}
		if key, err := backup.ParseRecipient(string(data)); err == nil {
			if again, err := backup.ParseRecipient(key); err != nil || again != key {
				t.Fatalf("got %q, %v, want %q", again, err, key)
			}
		}
	})
}
