package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/doctor"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

func newMgmt() *cobra.Command {
	return group("mgmt", "The management server: etcd, the CA, node control", newMgmtServe(), newMgmtStatus(), newMgmtAux(), newBootstrapSecret(), newAbandonFounding(), newMgmtRecover(), newMgmtRestore(), newMgmtKit())
}

// mgmtConfig is how a management server runs.
type mgmtConfig struct {
	mgmt.Config
	PassphraseFile string `key:"passphrase-file" help:"file with the root passphrase, read at founding only; asked for on the terminal when empty"`
	// BootstrapSecretFile and TokenFile are how a server comes into a mesh of several.
	BootstrapSecretFile string `key:"bootstrap-secret-file" help:"file with the bootstrap secret, the same on all servers that found the mesh together; see meshctl mgmt bootstrap-secret"`
	TokenFile           string `key:"token-file" help:"file with a join token of meshctl admin mgmt add: come into that mesh instead of founding one; read while the data folder is empty"`

	Log logConfig `key:"log"`
}

func newMgmtConfig() *mgmtConfig {
	return &mgmtConfig{Config: mgmt.DefaultConfig(), Log: defaultLog()}
}

func (c *mgmtConfig) logging() logConfig { return c.Log }

func (c *mgmtConfig) prepare() error {
	if c.Name == "" {
		c.Name = hostName()
	}
	return c.Validate()
}

func (c *mgmtConfig) checks() []doctor.Check {
	const room = 1 << 30 // etcd preallocates its log and grows to its quota
	checks := []doctor.Check{
		doctor.Folder(c.Dir, room),
		doctor.Descriptors(uint64(c.Rates.Open) + 1024),
		doctor.Listener("mesh port", c.MeshListen, c.MetricsListen),
		doctor.Listener("etcd clients", c.Etcd.ClientListen, c.MetricsListen),
		doctor.Listener("etcd peers", c.Etcd.PeerListen, c.MetricsListen),
	}
	if len(c.Peers) > 0 {
		checks = append(checks, doctor.Listener("gossip", c.Gossip(), c.MetricsListen))
	}
	for _, l := range [][2]string{{"admin", c.AdminListen}, {"route gateway", c.GatewayListen}, {"metrics", c.MetricsListen}} {
		if l[1] != "" {
			checks = append(checks, doctor.Listener(l[0], l[1], c.MetricsListen))
		}
	}
	return checks
}

// setupError marks what mgmt says no restart mends.
func setupError(err error) error {
	if errors.Is(err, mgmt.ErrSetup) {
		return &configError{err}
	}
	return err
}

// minPassphrase is the least length of the root passphrase, in characters.
const minPassphrase = 12

// checkPassphrase refuses what is too easy to guess for the one key that all
// trust hangs on.
func checkPassphrase(p mesh.Secret) error {
	if n := len([]rune(p.Reveal())); n < minPassphrase {
		return fmt.Errorf("%d characters: want at least %d: %w", n, minPassphrase, mesh.ErrInvalid)
	}
	return nil
}
