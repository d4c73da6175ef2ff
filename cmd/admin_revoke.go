package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

// newRevoke makes the leaf that revokes one object and what was issued to it.
func newRevoke[T any](a *adminCLI, n noun[T], m admin.Method[admin.RevokeRequest, T], danger string) *cobra.Command {
	var reason string
	d := deed{use: "revoke", danger: danger}
	c := &cobra.Command{
		Use: "revoke " + n.arg(), Short: "Refuse " + n.a() + " everywhere, at once", Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			v, err := ask(ctx, s, m, admin.RevokeRequest{Ref: args[0], Reason: reason})
			if err != nil {
				return err
			}
			return changed(s, n, v, "revoked")
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}
