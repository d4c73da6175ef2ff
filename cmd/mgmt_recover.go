package cmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/mgmt"
)

func newMgmtRecover() *cobra.Command {
	cfg := newMgmtConfig()
	var yes bool
	c := &cobra.Command{
		Use:   "recover",
		Short: "Go on with this server alone when all others are lost for good",
		Long: `Makes a mesh of this one server, for when so many of the others are lost for good
that no change is possible any more. Stop the server first, and make sure that the
lost ones cannot come back: several of them together may be a quorum of their own.
It is refused while anything answers at an address of theirs. Run it as the user
that owns the data folder.

They are removed and their certificates revoked. A change that only they had
acknowledged is lost. The data of etcd from before is kept beside the new one.
Interrupted, it is finished by the next recover or serve, or had not begun.`,
		Example: `  systemctl stop meshctl-mgmt
  runuser -u meshctl-mgmt -- meshctl mgmt recover
  systemctl start meshctl-mgmt`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := loadConfig(c, "mgmt", cfg); err != nil {
				return err
			}
			r := &mgmt.Recovery{Config: cfg.Config, Confirm: func(_ context.Context, p mgmt.RecoveryPlan) error {
				if err := showRecovery(c.ErrOrStderr(), p); err != nil {
					return err
				}
				return confirm(c, yes, "Go on with this server alone?")
			}}
			aside, err := r.Run(c.Context())
			if err != nil {
				return setupError(err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), `this server is a mesh of its own now
etcd's data from before is in %s: delete it once all is well
next: meshctl mgmt serve, then meshctl admin mgmt add NAME for each new server
`, aside)
			return err
		},
	}
	configFlags(c, "mgmt", cfg)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func showRecovery(w io.Writer, p mgmt.RecoveryPlan) error {
	changed := "none on record"
	if !p.Changed.IsZero() {
		changed = fmt.Sprintf("%s, %v ago", p.Changed.Format(time.RFC3339), time.Since(p.Changed).Round(time.Second))
	}
	if _, err := fmt.Fprintf(w, "Mesh:         %s\nThis server:  %s (%s)\nRevision:     %d\nLast change:  %s\n", p.Mesh, p.Server.Name, p.Server.ID, p.Revision, changed); err != nil {
		return err
	}
	for _, s := range p.Lost {
		if _, err := fmt.Fprintf(w, "Will be removed: %s (%s), silent at %s\n", s.Name, s.ID, s.Peer); err != nil {
			return err
		}
	}
	if p.Rekey {
		if _, err := fmt.Fprintln(w, "The data key is being replaced: go on with meshctl admin secrets rekey afterwards."); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w, `Changes that only the lost servers had acknowledged are not here and will be missing.
Lost servers that come back together can be a quorum: a second mesh with the same
keys. Destroy them or keep them off for good.
`)
	return err
}
