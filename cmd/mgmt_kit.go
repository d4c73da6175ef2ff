package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

func newMgmtKit() *cobra.Command {
	cfg := newMgmtConfig()
	var file string
	var format outputFormat
	c := &cobra.Command{
		Use:   "recovery-kit",
		Short: "Print what is needed to bring the mesh back when all servers are gone",
		Long: `Prints a page to keep on paper: the mesh, the SHA-256 of its root, where nodes look
for management, where the backups are, and what else to keep where. No secret is on
it. It is read from the data folder, and from the server when that answers.`,
		Example: "  meshctl mgmt recovery-kit --file recovery-kit.txt",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := loadConfig(c, "mgmt", cfg); err != nil {
				return err
			}
			kit, err := readKit(c.Context(), cfg)
			if err != nil {
				return setupError(err)
			}
			switch {
			case file != "":
				return writeKit(file, kit)
			case format.structured():
				return format.print(c.OutOrStdout(), kit)
			}
			return kit.Print(c.OutOrStdout())
		},
	}
	configFlags(c, "mgmt", cfg)
	format.flag(c)
	c.Flags().StringVar(&file, "file", "", "write the page to this file, which must not exist, instead of printing it")
	return c
}

// printKit prints the kit of the mesh that was founded now. What it says of backups
// comes later: none are set up.
func (c *mgmtConfig) printKit(w io.Writer, log *slog.Logger) {
	kit, err := mgmt.ReadKit(c.Dir)
	if err == nil {
		kit.Addresses = c.Advertised()
		kit.Unknown = "not set up yet (meshctl admin backup remote add, recipient new); print the kit again then"
		err = kit.Print(w)
	}
	if err != nil {
		log.Warn("recovery kit not printed", "err", err)
	}
}

// readKit is the kit of the server whose folder it is.
func readKit(ctx context.Context, cfg *mgmtConfig) (mgmt.Kit, error) {
	kit, err := mgmt.ReadKit(cfg.Dir)
	if err != nil {
		return kit, err
	}
	if err := askKit(ctx, cfg.Socket(), &kit); err != nil {
		kit.Addresses = cfg.Advertised()
		kit.Unknown = "not known, since the server does not answer; print the kit again when it does"
	}
	return kit, nil
}

// askKit adds what the server knows.
func askKit(ctx context.Context, socket string, kit *mgmt.Kit) error {
	link, err := dialAdminSocket(ctx, socket)
	if err != nil {
		return err
	}
	defer link.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conf, err := admin.ConfigGet.Call(ctx, link, admin.None{})
	if err != nil {
		return err
	}
	backups, err := admin.BackupGet.Call(ctx, link, admin.None{})
	if err != nil {
		return err
	}
	kit.Addresses = conf.MgmtAddresses
	for _, r := range backups.Settings.Remotes {
		kit.Remotes = append(kit.Remotes, fmt.Sprintf("%s %s", clean(r.Name), clean(r.URL)))
	}
	for _, r := range backups.Settings.Recipients {
		how := ""
		if r.Protected {
			how = " (its passphrase is enough)"
		}
		kit.Openers = append(kit.Openers, clean(r.Name)+" "+clean(r.Key)+how)
	}
	return nil
}

// writeKit writes the page to a new file.
func writeKit(file string, kit mgmt.Kit) (err error) {
	var page bytes.Buffer
	if err := kit.Print(&page); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Clean(file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return mesh.WithHint(fmt.Errorf("--file: %w: %w", err, mesh.ErrExists), "name another file, or remove that one")
	}
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	_, err = page.WriteTo(f)
	return errors.Join(err, f.Sync(), f.Close())
}
