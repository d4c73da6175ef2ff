package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

// newRevoke makes the leaf that revokes one object and what was issued to it.
func newRevoke[T any](a *adminCLI, n noun[T], m admin.Method[admin.RevokeRequest, T], danger string) *cobra.Command {
	return newRefusal(a, n, deed{use: "revoke", short: "Refuse " + n.a() + " everywhere, at once", done: "revoked", danger: danger}, m, false)
}

// newBan is newRevoke for good.
func newBan[T any](a *adminCLI, n noun[T], m admin.Method[admin.RevokeRequest, T], danger string) *cobra.Command {
	return newRefusal(a, n, deed{use: "ban", short: "Revoke " + n.a() + " and let it not join again", done: "banned", danger: danger}, m, true)
}

func newRefusal[T any](a *adminCLI, n noun[T], d deed, m admin.Method[admin.RevokeRequest, T], ban bool) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: d.use + " " + n.arg(), Short: d.short, Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			v, err := ask(ctx, s, m, admin.RevokeRequest{Ref: args[0], Reason: reason, Ban: ban})
			if err != nil {
				return err
			}
			return changed(s, n, v, d.done)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return c
}
