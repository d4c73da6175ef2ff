package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// limitFlags are a device's limits as people write them.
type limitFlags struct {
	connections      int
	traffic, expires string
}

func (l *limitFlags) flags(c *cobra.Command) {
	c.Flags().IntVar(&l.connections, "connections", 0, "connections open at once; 0: unlimited")
	c.Flags().StringVar(&l.traffic, "traffic", "unlimited", "bytes in both directions together, such as 100GB")
	c.Flags().StringVar(&l.expires, "expires", "never", "end of service: 30d, 2027-01-31 (00:00 UTC) or never")
}

// parse checks all of them. It returns faults of usage.
func (l *limitFlags) parse(now time.Time) (mesh.Limits, error) {
	var out mesh.Limits
	var err error
	if l.connections < 0 {
		return out, usagef("--connections %d: want 0 or more", l.connections)
	}
	out.Connections = l.connections
	if out.Traffic, err = mesh.ParseSize(l.traffic); err != nil {
		return out, usagef("--traffic: %v", err)
	}
	if out.Expires, err = mesh.ParseExpiry(l.expires, now); err != nil {
		return out, usagef("--expires: %v", err)
	}
	return out, nil
}

// assignFlags say where a device's traffic leaves.
func assignFlags(a *adminCLI, c *cobra.Command, cell, core *string) {
	c.Flags().StringVar(cell, "cell", "", "leave through any core of this cell")
	c.Flags().StringVar(core, "core", "", "leave through this core first, then through others of its cell")
	c.MarkFlagsMutuallyExclusive("cell", "core")
	completeFlag(a, c, "cell", cellNoun().refs)
	completeFlag(a, c, "core", coreNoun().refs)
}

func newDeviceAdd(a *adminCLI, n noun[admin.DeviceView]) *cobra.Command {
	var cell, core string
	var limits limitFlags
	c := &cobra.Command{
		Use: "add MEMBER NAME", Short: "Add a device", Args: takes("MEMBER", "NAME"), ValidArgsFunction: completeArgs(a, memberNoun().refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if cell == "" && core == "" {
				return usagef("where should its traffic leave?").hint("give --cell or --core; see `meshctl admin cell list`")
			}
			l, err := limits.parse(s.now)
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.DeviceAdd, admin.DeviceAddRequest{Member: args[0], Name: args[1], Cell: cell, Core: core, Limits: l})
			if err != nil {
				return err
			}
			if err := changed(s, n, v, "added"); err != nil {
				return err
			}
			if v.Waiting != "" {
				return s.say("not served yet: %s", clean(v.Waiting))
			}
			return s.say("hand it out with: meshctl admin device link %s", v.ID)
		}),
	}
	assignFlags(a, c, &cell, &core)
	limits.flags(c)
	return c
}

func newDeviceSet(a *adminCLI, n noun[admin.DeviceView]) *cobra.Command {
	var name, cell, core string
	var limits limitFlags
	c := &cobra.Command{
		Use: "set DEVICE", Short: "Change a device's name, limits or way out", Args: takes("DEVICE"), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange("name", "cell", "core", "connections", "traffic", "expires"); err != nil {
				return err
			}
			l, err := limits.parse(s.now)
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.DeviceSet, admin.DeviceSetRequest{
				Ref: args[0], Name: given(s, "name", name), Cell: given(s, "cell", cell), Core: given(s, "core", core),
				Connections: given(s, "connections", l.Connections), Traffic: given(s, "traffic", l.Traffic), Expires: given(s, "expires", l.Expires),
			})
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	assignFlags(a, c, &cell, &core)
	limits.flags(c)
	return c
}
