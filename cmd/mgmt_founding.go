package cmd

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/mgmt"
)

func newBootstrapSecret() *cobra.Command {
	return &cobra.Command{
		Use:   "bootstrap-secret",
		Short: "Make the secret with which servers found a mesh together",
		Long: `Prints a fresh random secret. Put it into a file of mode 0600 on every server that
founds the mesh, and name the file with --bootstrap-secret-file. Once the mesh is
founded the secret admits nobody and the files can be deleted.`,
		Example: "  (umask 077; meshctl mgmt bootstrap-secret > bootstrap.secret)",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b := make([]byte, mgmt.MinBootstrapSecret)
			rand.Read(b) // never fails (crypto/rand)
			_, err := fmt.Fprintln(c.OutOrStdout(), base64.RawURLEncoding.EncodeToString(b))
			return err
		},
	}
}

func newAbandonFounding() *cobra.Command {
	cfg := newMgmtConfig()
	var yes bool
	c := &cobra.Command{
		Use:   "abandon-founding",
		Short: "Withdraw this server's promise to found a mesh",
		Long: `A server that has promised to found a mesh with another one takes part in no other
founding, for however long that takes. This withdraws the promise, with what was
made for it, when the other server is gone for good. Stop the server first. It is
refused once the server is part of a mesh.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := loadConfig(c, "mgmt", cfg); err != nil {
				return err
			}
			if err := confirm(c, yes, "Withdraw the promise of this server? If the other one has founded the mesh meanwhile, this one gets into it only with a token."); err != nil {
				return err
			}
			line, err := mgmt.Abandon(cfg.Dir)
			if err != nil {
				return setupError(err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), line)
			return err
		},
	}
	configFlags(c, "mgmt", cfg)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}
