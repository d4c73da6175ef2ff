package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

func newDeviceRotate(a *adminCLI, n noun[admin.DeviceView]) *cobra.Command {
	var label, secret bool
	var overlap string
	c := &cobra.Command{
		Use: "rotate DEVICE", Short: "Replace a device's name, or its secret", Args: takes("DEVICE"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Replace the random label of a device's server name, or its secret, or both. Clients
learn the new ones at their next fetch. Until the overlap ends the old name works
too, but no more than two old ones: who rotates often ends the oldest early. The old
secret ends at once, so its client stops until it has fetched.
The link stays as it is: meshctl admin device link DEVICE --replace ends it.`,
		Example: "  meshctl admin device rotate alice/phone --overlap 3d\n  meshctl admin device rotate alice/phone --label --secret --overlap none",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			label = label || !secret
			o, err := parseOverlap(s, overlap)
			if err != nil {
				return err
			}
			if o != nil && !label {
				return usagef("--overlap is for the label: a secret that was replaced ends at once")
			}
			if secret {
				if err := s.confirm(fmt.Sprintf("Replace the secret of device %s? Its client stops until it has fetched its link again.", clean(args[0]))); err != nil {
					return err
				}
			}
			v, err := ask(ctx, s, admin.DeviceRotate, admin.DeviceRotateRequest{Ref: args[0], Label: label, Secret: secret, Overlap: o})
			if err != nil {
				return err
			}
			return rotated(s, n, v, label, secret)
		}),
	}
	c.Flags().BoolVar(&label, "label", false, "replace the name; so it is when nothing is said")
	c.Flags().BoolVar(&secret, "secret", false, "replace the secret")
	overlapFlag(c, &overlap)
	return c
}

func rotated(s *adminSession, n noun[admin.DeviceView], v admin.DeviceView, label, secret bool) error {
	done := map[[2]bool]string{{true, false}: "has a new name", {false, true}: "has a new secret", {true, true}: "has a new name and a new secret"}
	if err := changed(s, n, v, done[[2]bool{label, secret}]); err != nil {
		return err
	}
	if label && !v.Replaced.IsZero() {
		if err := s.say("old names work until %s", at(v.Replaced, s.now)); err != nil {
			return err
		}
		if len(v.ServerNames) > 2 {
			if err := s.say("these are two, the most there can be: any before them have ended"); err != nil {
				return err
			}
		}
	}
	if v.Linked.IsZero() {
		return s.say("it has no link, so set its client up again: meshctl admin device link %s", v.ID)
	}
	return nil
}
