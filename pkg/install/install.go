// Package install puts a role on a machine that systemd runs, and takes it away
// again: the binary, the user, the folders, an example of its configuration, and
// the unit. Every step looks first, so doing it again changes nothing.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/meshctl/meshctl/deploy/systemd"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Where things are, below the root.
const (
	configDir   = "/etc/meshctl"
	stateParent = "/var/lib/meshctl"
	unitDir     = "/etc/systemd/system"
	usersDir    = "/etc/sysusers.d"
)

// Installer is one role on one machine, or in the image of one.
type Installer struct {
	Role    string
	Source  string // the binary to install
	Prefix  string // where it goes: PREFIX/bin/meshctl
	Root    string // the image's root folder; "": this machine
	Example []byte // the configuration to begin with
	DryRun  bool   // say what would be done, and do nothing
	// Manager acts on the running system; nil, or a Root: nothing runs.
	Manager Manager
	// Did is told of every step that was needed, or would be.
	Did func(what string)
}

// Manager is systemd on this machine.
type Manager interface {
	// MakeUsers makes the users that a file below sysusers.d declares.
	MakeUsers(ctx context.Context, file string) error
	// RemoveUser removes a user; one that is not there is no error.
	RemoveUser(ctx context.Context, name string) error
	// Owner returns the ids of a user.
	Owner(name string) (uid, gid int, err error)
	// Running says whether systemd runs this machine: in a container it may be
	// installed and not run.
	Running() bool
	// Reload makes systemd read its units again.
	Reload(ctx context.Context) error
	// Disable stops a unit and does not start it at boot.
	Disable(ctx context.Context, unit string) error
}

// Binary is where the binary is installed, without the root.
func (i *Installer) Binary() string { return path.Join(i.Prefix, "bin/meshctl") }

// ConfigFile is where the configuration is, without the root.
func (i *Installer) ConfigFile() string { return path.Join(configDir, i.Role+".yaml") }

// StateDir is where the state is, without the root.
func (i *Installer) StateDir() string { return path.Join(stateParent, i.Role) }

func (i *Installer) unitFile() string  { return path.Join(unitDir, systemd.UnitName(i.Role)) }
func (i *Installer) usersFile() string { return path.Join(usersDir, systemd.UserName(i.Role)+".conf") }

// at is a path below the root.
func (i *Installer) at(p string) string { return filepath.Join("/", i.Root, p) }

// live says whether this is the running machine and not an image of one.
func (i *Installer) live() bool { return i.Root == "" && i.Manager != nil }

// check refuses what no unit can name.
func (i *Installer) check() error {
	for what, p := range map[string]string{"prefix": i.Prefix, "root": i.Root} {
		if p != "" && !filepath.IsAbs(p) {
			return fmt.Errorf("install: %s %q: want an absolute path: %w", what, mesh.Quotable(p), mesh.ErrInvalid)
		}
	}
	if i.Prefix == "" || strings.ContainsAny(i.Prefix, " \t\n\"'\\%$;") {
		return fmt.Errorf("install: prefix %q: want a path of plain characters: %w", mesh.Quotable(i.Prefix), mesh.ErrInvalid)
	}
	return nil
}

// Install puts the role in place.
func (i *Installer) Install(ctx context.Context) error {
	if err := i.check(); err != nil {
		return err
	}
	unit, err := systemd.Unit(i.Role, i.Binary())
	if err != nil {
		return err
	}
	return inOrder(
		func() error { return i.binary() },
		func() error { return i.users(ctx) },
		func() error { return i.folder(configDir, 0o755) },
		func() error { return i.example() },
		func() error { return i.folder(stateParent, 0o755) },
		func() error { return i.state() },
		func() error { return i.unit(ctx, unit) },
	)
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// do says what is done and does it, unless nothing is to be done.
func (i *Installer) do(what string, deed func() error) error {
	i.Did(what)
	if i.DryRun {
		return nil
	}
	if err := deed(); err != nil {
		return denied(fmt.Errorf("install: %s: %w", what, err))
	}
	return nil
}

// denied adds what to do when the user may not.
func denied(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return mesh.WithHint(err, "run it as root")
	}
	return err
}

func (i *Installer) binary() error {
	if same, err := sameFile(i.Source, i.at(i.Binary())); same || err != nil {
		return err
	}
	return i.do("install "+i.Binary(), func() error { return copyFile(i.Source, i.at(i.Binary()), 0o755) })
}

// users declares the user and, on this machine, makes it.
func (i *Installer) users(ctx context.Context) error {
	name := systemd.UserName(i.Role)
	if err := i.file(i.usersFile(), systemd.Users(i.Role, i.StateDir())); err != nil || !i.live() {
		return err
	}
	if _, _, err := i.Manager.Owner(name); err == nil {
		return nil
	}
	return i.do("make the user "+name, func() error { return i.Manager.MakeUsers(ctx, i.usersFile()) })
}

// example writes the configuration to begin with; one that is there stays.
func (i *Installer) example() error {
	if _, err := os.Lstat(i.at(i.ConfigFile())); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return i.file(i.ConfigFile(), i.Example)
}

// state makes the folder of the state. In an image its owner is left to the
// unit, which makes it right at the first start.
func (i *Installer) state() error {
	if _, err := os.Lstat(i.at(i.StateDir())); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return i.do("make "+i.StateDir()+" (mode 0700)", func() error {
		if err := makeDir(i.at(i.StateDir()), 0o700); err != nil || !i.live() {
			return err
		}
		uid, gid, err := i.Manager.Owner(systemd.UserName(i.Role))
		if err != nil {
			return err
		}
		return os.Chown(i.at(i.StateDir()), uid, gid)
	})
}

func (i *Installer) unit(ctx context.Context, text []byte) error {
	if same, err := hasContent(i.at(i.unitFile()), text); same || err != nil {
		return err
	}
	if err := i.file(i.unitFile(), text); err != nil {
		return err
	}
	return i.reload(ctx)
}

func (i *Installer) reload(ctx context.Context) error {
	if !i.live() || !i.Manager.Running() {
		return nil
	}
	return i.do("make systemd read its units", func() error { return i.Manager.Reload(ctx) })
}

// file writes a file of ours unless it is there already.
func (i *Installer) file(name string, text []byte) error {
	if same, err := hasContent(i.at(name), text); same || err != nil {
		return err
	}
	return i.do("write "+name, func() error { return writeFile(i.at(name), text, 0o644) })
}

func (i *Installer) folder(name string, mode fs.FileMode) error {
	if _, err := os.Stat(i.at(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return i.do(fmt.Sprintf("make %s (mode %04o)", name, mode), func() error { return makeDir(i.at(name), mode) })
}
