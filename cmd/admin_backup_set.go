package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxKeyFile bounds a private key, a token, an identity.
const maxKeyFile = 16 << 10

func newBackupSet(a *adminCLI) *cobra.Command {
	var every, heartbeat, prove, totals, copiesDir, copiesEvery, signKey string
	var plaintext bool
	var keep int
	c := &cobra.Command{
		Use: "set", Short: "Change when and how backups are made", Args: takes(),
		Long: `Change when and how backups are made. "default" brings a time back to what it was
before it was ever set.`,
		Example: `  meshctl admin backup set --every 1m --prove-every 6h
  meshctl admin backup set --copies-dir /var/backups/mesh --copies-every 1d --copies-keep 14
  meshctl admin backup set --copies-dir ''`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			flags := []string{"every", "heartbeat", "prove-every", "totals-every", "plaintext-objects", "copies-dir", "copies-every", "copies-keep", "sign-key"}
			if err := s.needChange(flags...); err != nil {
				return err
			}
			req := admin.BackupSetRequest{
				PlaintextObjects: given(s, "plaintext-objects", plaintext), CopiesDir: given(s, "copies-dir", copiesDir), CopiesKeep: given(s, "copies-keep", keep),
			}
			for _, f := range []struct {
				name, text string
				to         **mesh.Duration
			}{
				{"every", every, &req.Every}, {"heartbeat", heartbeat, &req.Heartbeat}, {"prove-every", prove, &req.ProveEvery},
				{"totals-every", totals, &req.TotalsEvery}, {"copies-every", copiesEvery, &req.CopiesEvery},
			} {
				if given(s, f.name, f.text) == nil {
					continue
				}
				d, err := parsePeriod(f.text)
				if err != nil {
					return usagef("--%s: %v", f.name, err)
				}
				*f.to = new(mesh.Duration(d))
			}
			if given(s, "sign-key", signKey) != nil {
				req.SignKey = new("")
				if signKey != "" {
					key, err := readPrivateFile(ctx, "--sign-key", signKey, s.cmd.InOrStdin(), maxKeyFile)
					if err != nil {
						return err
					}
					*req.SignKey = string(key)
				}
			}
			if plaintext {
				if err := s.confirm("Write names, contacts, labels and addresses in plain text? Whoever can read a remote reads them, and its history keeps them when this is undone."); err != nil {
					return err
				}
			}
			v, err := ask(ctx, s, admin.BackupSet, req)
			return orSaid(s, v, err, "backup settings changed")
		}),
	}
	f := c.Flags()
	f.StringVar(&every, "every", "", "least time between two commits (default 10s)")
	f.StringVar(&heartbeat, "heartbeat", "", "how often the head is tagged when nothing changes (default 1d)")
	f.StringVar(&prove, "prove-every", "", "least time between two proofs that a backup restores (default 1h)")
	f.StringVar(&totals, "totals-every", "", "least time between two commits of traffic totals (default 1h)")
	f.BoolVar(&plaintext, "plaintext-objects", false, "write what is personal, but not what is secret, in plain text")
	f.StringVar(&copiesDir, "copies-dir", "", "absolute folder on the servers for full copies of etcd, encrypted; '' makes none")
	f.StringVar(&copiesEvery, "copies-every", "", "time between two full copies (default 1d)")
	f.IntVar(&keep, "copies-keep", 0, "how many full copies are kept (default 7)")
	f.StringVar(&signKey, "sign-key", "", "file with an SSH private key that signs commits, mode 0600; '' takes it away")
	return c
}

// parsePeriod reads a positive duration, or "default" as 0.
func parsePeriod(s string) (time.Duration, error) {
	if s == "default" {
		return 0, nil
	}
	return mesh.ParseSpan(s)
}
