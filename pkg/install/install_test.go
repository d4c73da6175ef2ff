package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// image is an installer of a role into an empty image, and what it did.
func image(t *testing.T, role, root string) (*Installer, *[]string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "meshctl")
	if err := os.WriteFile(binary, []byte("the binary"), 0o700); err != nil {
		t.Fatal(err)
	}
	did := new([]string)
	return &Installer{
		Role: role, Source: binary, Prefix: "/opt/mesh", Root: root, Example: []byte("# example\n"),
		Manager: machine{t: t}, Did: func(what string) { *did = append(*did, what) },
	}, did
}

// machine fails the test: an image is never acted on as a running system.
type machine struct{ t *testing.T }

func (m machine) MakeUsers(context.Context, string) error  { m.t.Error("users made"); return nil }
func (m machine) RemoveUser(context.Context, string) error { m.t.Error("user removed"); return nil }
func (m machine) Owner(string) (int, int, error)           { m.t.Error("owner asked"); return 0, 0, nil }
func (m machine) Running() bool                            { m.t.Error("asked whether it runs"); return true }
func (m machine) Reload(context.Context) error             { m.t.Error("reloaded"); return nil }
func (m machine) Disable(context.Context, string) error    { m.t.Error("disabled"); return nil }

// tree is every path below root with its mode.
func tree(t *testing.T, root string) map[string]fs.FileMode {
	t.Helper()
	out := map[string]fs.FileMode{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && path != root {
			out[strings.TrimPrefix(path, root)] = info.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestInstallPutsEverythingInPlaceWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	root := t.TempDir()
	i, did := image(t, "entry", root)
	if err := i.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := tree(t, root)
	for path, mode := range map[string]fs.FileMode{
		"/opt/mesh/bin/meshctl":                     0o755,
		"/etc/meshctl":                              0o755 | fs.ModeDir,
		"/etc/meshctl/entry.yaml":                   0o644,
		"/etc/systemd/system/meshctl-entry.service": 0o644,
		"/etc/sysusers.d/meshctl-entry.conf":        0o644,
		"/var/lib/meshctl":                          0o755 | fs.ModeDir,
		"/var/lib/meshctl/entry":                    0o700 | fs.ModeDir,
	} {
		if got[path] != mode {
			t.Errorf("%s has mode %v, want %v", path, got[path], mode)
		}
	}
	unit, err := os.ReadFile(filepath.Join(root, "/etc/systemd/system/meshctl-entry.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart=/opt/mesh/bin/meshctl entry run\n") {
		t.Errorf("the unit does not start the installed binary (%v):\n%s", err, unit)
	}
	if len(*did) == 0 {
		t.Error("it says nothing of what it did")
	}
}

func TestInstallAgainChangesOnlyWhatDiffers(t *testing.T) {
	root := t.TempDir()
	i, did := image(t, "core", root)
	if err := i.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	*did = nil
	if err := i.Install(t.Context()); err != nil || len(*did) > 0 {
		t.Fatalf("the second time it did %q, %v", *did, err)
	}
	mine := filepath.Join(root, "/etc/meshctl/core.yaml")
	if err := errors.Join(os.WriteFile(mine, []byte("listen: :1\n"), 0o600), os.WriteFile(i.Source, []byte("a new release"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := i.Install(t.Context()); err != nil || !slices.Equal(*did, []string{"install /opt/mesh/bin/meshctl"}) {
		t.Errorf("a new release: it did %q, %v", *did, err)
	}
	if text, err := os.ReadFile(mine); string(text) != "listen: :1\n" {
		t.Errorf("the configuration was touched: %q, %v", text, err)
	}
}

func TestDryRunTouchesNothing(t *testing.T) {
	root := t.TempDir()
	i, did := image(t, "mgmt", root)
	i.DryRun = true
	if err := i.Install(t.Context()); err != nil || len(*did) != 7 {
		t.Errorf("it would do %q, %v", *did, err)
	}
	if got := tree(t, root); len(got) > 0 {
		t.Errorf("it made %v", got)
	}
}

func TestUninstallKeepsWhatIsTheOperators(t *testing.T) {
	root := t.TempDir()
	entry, _ := image(t, "entry", root)
	core, did := image(t, "core", root)
	if err := errors.Join(entry.Install(t.Context()), core.Install(t.Context())); err != nil {
		t.Fatal(err)
	}
	config, key := filepath.Join(root, core.ConfigFile()), filepath.Join(root, core.StateDir(), "key")
	if err := errors.Join(os.WriteFile(config, []byte("listen: :1\n"), 0o644), os.WriteFile(key, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := core.Uninstall(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	got := tree(t, root)
	for path, want := range map[string]bool{
		core.unitFile(): false, core.ConfigFile(): true, core.StateDir() + "/key": true, core.usersFile(): true,
		core.Binary(): true, // the entry's unit starts it
	} {
		if _, ok := got[path]; ok != want {
			t.Errorf("%s is there: %v, want %v", path, ok, want)
		}
	}
	*did = nil
	if err := core.Uninstall(t.Context(), false); err != nil || len(*did) > 0 {
		t.Errorf("the second time it did %q, %v", *did, err)
	}
}

func TestPurgeLeavesNothing(t *testing.T) {
	root := t.TempDir()
	i, _ := image(t, "core", root)
	if err := i.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, i.StateDir(), "key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := i.Uninstall(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for path, mode := range tree(t, root) {
		if !mode.IsDir() || strings.Contains(path, "meshctl") {
			t.Errorf("%s is left", path)
		}
	}
}

func TestWhatNoUnitCanNameIsRefused(t *testing.T) {
	for _, c := range []struct{ prefix, root string }{{"", ""}, {"usr", ""}, {"/opt/my mesh", ""}, {"/opt/%h", ""}, {"/usr", "image"}} {
		i, did := image(t, "core", c.root)
		i.Prefix = c.prefix
		if err := errors.Join(i.Install(t.Context()), i.Uninstall(t.Context(), true)); !errors.Is(err, mesh.ErrInvalid) || len(*did) > 0 {
			t.Errorf("prefix %q, root %q: did %q, %v", c.prefix, c.root, *did, err)
		}
	}
}

func TestWithoutTheRightsItSaysHowToHaveThem(t *testing.T) {
	if os.Getuid() == 0 { // root may always: the error itself is what is checked
		err := denied(&fs.PathError{Op: "open", Path: "/etc", Err: syscall.EACCES})
		if mesh.Hint(err) != "run it as root" {
			t.Errorf("hint %q", mesh.Hint(err))
		}
		return
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o500); err != nil {
		t.Fatal(err)
	}
	i, _ := image(t, "core", root)
	if err := i.Install(t.Context()); mesh.Hint(err) != "run it as root" {
		t.Errorf("%v, hint %q", err, mesh.Hint(err))
	}
}

func TestOwnerOfAUserIsFound(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if uid, _, err := (Systemd{}).Owner(me.Username); err != nil || uid != os.Getuid() {
		t.Errorf("uid %d, %v", uid, err)
	}
}
