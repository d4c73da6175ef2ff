package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// adminHome is where login keeps what belongs to one person:
// $XDG_CONFIG_HOME/meshctl, with admin.yaml and the identity in it.
func adminHome() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", mesh.WithHint(fmt.Errorf("no folder for settings: %w: %w", err, mesh.ErrInvalid), "set HOME or XDG_CONFIG_HOME")
	}
	return filepath.Join(dir, "meshctl"), nil
}

// adminConfigFile is the settings file, or "" when there is none yet.
func adminConfigFile() (string, error) {
	home, err := adminHome()
	if err != nil {
		return "", nil //nolint:nilerr // the socket and flags need no folder
	}
	file := filepath.Join(home, "admin.yaml")
	if _, err := os.Stat(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", &configError{err}
	}
	return file, nil
}

// The identity's folder, and where a new one is made beside it.
const (
	adminIdentity = "identity"
	adminStage    = "identity.new"
)

// notLoggedIn is what everything says that needs an identity.
func notLoggedIn() error {
	return mesh.WithHint(fmt.Errorf("not logged in: %w", mesh.ErrDenied),
		"on the server's machine run it as root; elsewhere ask an owner for a token (meshctl admin token create --role admin --grant ROLE), then: meshctl admin login")
}

// storedAdmin returns the identity that login stored, also when it has ended.
// It returns ErrNotFound when there is none.
func storedAdmin() (*identity.Node, error) {
	home, err := adminHome()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(home, adminIdentity)
	if err := finishSwap(home); err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, mesh.ErrNotFound)
	}
	f, err := identity.OpenFolder(dir)
	if err != nil {
		return nil, folderError(err)
	}
	node, err := f.Load()
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return nil, folderError(err)
	}
	return node, err
}

// loadAdmin returns the stored identity when it can still be used.
func loadAdmin() (*identity.Node, error) {
	node, err := storedAdmin()
	if errors.Is(err, mesh.ErrNotFound) {
		return nil, notLoggedIn()
	}
	if err != nil {
		return nil, err
	}
	if end := node.Leaf().NotAfter; time.Now().After(end) {
		return nil, mesh.WithHint(fmt.Errorf("the certificate of %s ended at %s: %w", node.Identity().Node(), end.UTC().Format(time.RFC3339), mesh.ErrDenied),
			"ask an owner for a token, then: meshctl admin login")
	}
	return node, nil
}

// stageFolder is where a new identity is made. It outlives a failed login, so
// that the same key can fetch a certificate whose delivery was lost.
func stageFolder() (*identity.Folder, error) {
	home, err := adminHome()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", home, err)
	}
	return identity.OpenFolder(filepath.Join(home, adminStage))
}

// swapStage puts the new identity in the place of the old one.
func swapStage() error {
	home, err := adminHome()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(home, adminIdentity)); err != nil {
		return err
	}
	return os.Rename(filepath.Join(home, adminStage), filepath.Join(home, adminIdentity))
}

// finishSwap completes a swap that was cut short: a whole new identity and no
// old one.
func finishSwap(home string) error {
	old, err := filepath.Glob(filepath.Join(home, adminIdentity, "*.pem"))
	whole, err2 := filepath.Glob(filepath.Join(home, adminStage, "identity-*.pem"))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if len(old) > 0 || len(whole) == 0 {
		return nil
	}
	return swapStage()
}

// saveAdminServers notes the servers in the settings file and keeps what else
// it says.
func saveAdminServers(addresses []string) error {
	home, err := adminHome()
	if err != nil {
		return err
	}
	file := filepath.Join(home, "admin.yaml")
	settings := map[string]any{}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := yaml.Unmarshal(old, &settings); err != nil {
		return &configError{fmt.Errorf("%s: %w", file, err)}
	}
	if settings == nil {
		settings = map[string]any{}
	}
	settings["server"] = addresses
	text, err := yaml.Marshal(settings)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return durable.Write(file, text)
}
