package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshctl/meshctl/deploy/systemd"
)

// Uninstall takes the role away. Its state, a configuration that somebody
// changed, and the user that owns them stay, unless purge.
func (i *Installer) Uninstall(ctx context.Context, purge bool) error {
	if err := i.check(); err != nil {
		return err
	}
	steps := []func() error{
		func() error { return i.removeUnit(ctx) },
		func() error { return i.removeBinary() },
		func() error { return i.removeExample(purge) },
	}
	if purge {
		steps = append(steps,
			func() error { return i.removeState() },
			func() error { return i.removeUser(ctx) },
			func() error { return i.removeEmpty(stateParent) })
	}
	return inOrder(append(steps, func() error { return i.removeEmpty(configDir) })...)
}

func (i *Installer) removeUnit(ctx context.Context) error {
	there, err := exists(i.at(i.unitFile()))
	if !there || err != nil {
		return err
	}
	name := systemd.UnitName(i.Role)
	if i.live() {
		if err := i.do("stop and disable "+name, func() error { return i.Manager.Disable(ctx, name) }); err != nil {
			return err
		}
	}
	if err := i.remove(i.unitFile()); err != nil {
		return err
	}
	return i.reload(ctx)
}

// removeBinary keeps the binary while another role's unit starts it.
func (i *Installer) removeBinary() error {
	others, err := filepath.Glob(filepath.Join(i.at(unitDir), systemd.UnitName("*")))
	if err != nil {
		return err
	}
	for _, o := range others {
		if o != i.at(i.unitFile()) {
			return nil
		}
	}
	return i.remove(i.Binary())
}

func (i *Installer) removeExample(purge bool) error {
	untouched, err := hasContent(i.at(i.ConfigFile()), i.Example)
	if err != nil || !untouched && !purge {
		return err
	}
	return i.remove(i.ConfigFile())
}

func (i *Installer) removeState() error {
	there, err := exists(i.at(i.StateDir()))
	if !there || err != nil {
		return err
	}
	return i.do("remove "+i.StateDir()+" and all in it", func() error { return os.RemoveAll(i.at(i.StateDir())) })
}

func (i *Installer) removeUser(ctx context.Context) error {
	if err := i.remove(i.usersFile()); err != nil || !i.live() {
		return err
	}
	name := systemd.UserName(i.Role)
	if _, _, err := i.Manager.Owner(name); err != nil {
		return nil // there is none
	}
	return i.do("remove the user "+name, func() error { return i.Manager.RemoveUser(ctx, name) })
}

func (i *Installer) remove(name string) error {
	there, err := exists(i.at(name))
	if !there || err != nil {
		return err
	}
	return i.do("remove "+name, func() error { return os.Remove(i.at(name)) })
}

// removeEmpty removes a folder that held nothing but this role's things.
func (i *Installer) removeEmpty(name string) error {
	entries, err := os.ReadDir(i.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(entries) > 0 {
		return err
	}
	return i.remove(name)
}

func exists(name string) (bool, error) {
	_, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
