package mgmt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestAServerResumesTheMeshItFounded(t *testing.T) {
	t.Parallel()
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	r, err := start(conf, new(logBuffer), givePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	before := call(t, admin.StatusGet, r.local(t), admin.None{})
	member := call(t, admin.MemberAdd, r.local(t), admin.MemberAddRequest{Name: "Ada"})
	tok := r.token(t, mesh.RoleEntry)
	if err := r.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}

	r, err = start(conf, new(logBuffer), func(context.Context) (mesh.Secret, error) {
		t.Error("the passphrase was asked for again")
		return "", errors.New("no")
	})
	if err != nil {
		t.Fatal(err)
	}
	after := call(t, admin.StatusGet, r.local(t), admin.None{})
	if after.Mesh != before.Mesh || after.Server.Server != before.Server.Server {
		t.Errorf("resumed as %s of %s, want %s of %s", after.Server.Server, after.Mesh, before.Server.Server, before.Mesh)
	}
	if got := call(t, admin.MemberGet, r.local(t), admin.Ref{Ref: "Ada"}); got.ID != member.ID {
		t.Errorf("member Ada is %s, want %s", got.ID, member.ID)
	}
	tok.Addresses = []string{r.addr.Mesh} // the port is another one
	if _, err := join(t, tok, mesh.RoleEntry, newFolder(t)); err != nil {
		t.Errorf("a token from before the restart: %v", err)
	}
	if err := r.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	t.Run("damage", func(t *testing.T) { damage(t, conf) })
	t.Run("killed while founding", func(t *testing.T) { unfinished(t, conf, before.Mesh) })
}

// unfinished takes a folder back to where a kill may have left it after the
// keys were written, and finds that the founding goes on by itself.
func unfinished(t *testing.T, conf Config, want mesh.ID) {
	for _, c := range []struct {
		name string
		gone []string
	}{
		{"before the last file", []string{fileFounded}},
		{"before the server had a certificate", []string{fileFounded, dirNode}},
		{"before etcd began", []string{fileFounded, dirNode, dirEtcd, dirEtcd + ".member", dirEtcdTLS}},
	} {
		for _, name := range c.gone {
			if err := os.RemoveAll(filepath.Join(conf.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := start(conf, new(logBuffer), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := call(t, admin.StatusGet, r.local(t), admin.None{}).Mesh; got != want {
			t.Errorf("%s: resumed as %s, want %s", c.name, got, want)
		}
		if err := r.stop(); err != nil {
			t.Errorf("%s: stop: %v", c.name, err)
		}
		if _, err := os.Stat(filepath.Join(conf.Dir, fileFounded)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// damage tries a founded folder with one thing wrong at a time.
func damage(t *testing.T, conf Config) {
	path := func(name string) string { return filepath.Join(conf.Dir, name) }
	move := func(name string) func(*testing.T) {
		return func(t *testing.T) { rename(t, path(name), path("away")) }
	}
	restore := func(name string) func(*testing.T) {
		return func(t *testing.T) { rename(t, path("away"), path(name)) }
	}
	type fault struct {
		name       string
		do, undo   func(*testing.T)
		part, hint string
	}
	faults := []fault{
		{"etcd's data is gone", move(dirEtcd), restore(dirEtcd), "etcd's data is gone", "backup"},
		{"the state file is gone", move(fileServer), restore(fileServer), fileServer + " is missing", "do not found another"},
		{"the folder is open to others", mode(conf.Dir, 0o755), mode(conf.Dir, 0o700), "is open to others", "chmod 700"},
	}
	for _, name := range append([]string{fileServer, fileFounded}, keyFiles[:]...) {
		whole, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		put := func(b []byte) func(*testing.T) {
			return func(t *testing.T) {
				if err := os.WriteFile(path(name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if name != fileRootSealed { // opened with the passphrase only
			faults = append(faults, fault{name + " is cut short", put(whole[:len(whole)/2]), put(whole), path(name), "backup"})
		}
		faults = append(faults,
			fault{name + " is empty", put(nil), put(whole), path(name), "backup"},
			fault{name + " is open to others", mode(path(name), 0o644), mode(path(name), 0o600), path(name), "chmod 600"})
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			f.do(t)
			defer f.undo(t)
			r, err := start(conf, new(logBuffer), givePassphrase)
			if err == nil {
				r.stop()
				t.Fatal("it serves")
			}
			if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), f.part) || !strings.Contains(mesh.Hint(err), f.hint) {
				t.Errorf("got %q, hint %q, setup %v; want %q, hint %q", err, mesh.Hint(err), errors.Is(err, ErrSetup), f.part, f.hint)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func mode(path string, m os.FileMode) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if err := os.Chmod(path, m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFoundingThatWasCutOffIsRefusedWithTheWayOut(t *testing.T) {
	for n := range keyFiles {
		conf := testConfig(filepath.Join(t.TempDir(), "data"))
		if err := os.Mkdir(conf.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range keyFiles[:n+1] {
			if err := os.WriteFile(filepath.Join(conf.Dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := start(conf, new(logBuffer), givePassphrase)
		if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "did not finish") || !strings.Contains(mesh.Hint(err), "rm -r") {
			t.Errorf("after %d files: %v, hint %q", n+1, err, mesh.Hint(err))
		}
	}
}

func TestWhatCannotFoundIsSaidBeforeAnythingIsWritten(t *testing.T) {
	give := func(s mesh.Secret) func(context.Context) (mesh.Secret, error) {
		return func(context.Context) (mesh.Secret, error) { return s, nil }
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		dir  string
		pass func(context.Context) (mesh.Secret, error)
		part string
	}{
		{"a short passphrase", filepath.Join(dir, "a"), give("only eleven"), "at least 12 are needed"},
		{"no way to ask for one", filepath.Join(dir, "b"), nil, "no root passphrase"},
		{"a file where the folder should be", file, givePassphrase, "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := start(testConfig(c.dir), new(logBuffer), c.pass)
			if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), c.part) {
				t.Errorf("got %v; want %q", err, c.part)
			}
			for _, name := range keyFiles {
				if _, err := os.Stat(filepath.Join(c.dir, name)); err == nil {
					t.Errorf("%s was written", name)
				}
			}
		})
	}
}

func TestAPortInUseIsNamedAndMayPass(t *testing.T) {
	w := getWorld(t)
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	conf.MeshListen = w.addr.Mesh
	_, err := start(conf, new(logBuffer), givePassphrase)
	if !errors.Is(err, mesh.ErrUnavailable) || errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), w.addr.Mesh) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(conf.Dir); !os.IsNotExist(err) {
		t.Error("the folder was made all the same")
	}
}

func TestTwoServersDoNotShareAFolder(t *testing.T) {
	w := getWorld(t)
	_, err := start(testConfig(w.conf.Dir), new(logBuffer), givePassphrase)
	if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "in use by another server") {
		t.Errorf("got %v", err)
	}
}
