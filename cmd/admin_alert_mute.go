package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func muteNoun() noun[mesh.AlertMute] {
	orAll := func(s string) string {
		if s == "" {
			return "all"
		}
		return s
	}
	label := func(m mesh.AlertMute) string { return "of rule " + orAll(m.Rule) + ", object " + orAll(m.Object) }
	return noun[mesh.AlertMute]{
		one: "mute", many: "mutes", id: label, label: label, empty: "whoever is linked is told of everything",
		columns: []column[mesh.AlertMute]{
			text("RULE", func(m mesh.AlertMute) string { return orAll(m.Rule) }),
			text("OBJECT", func(m mesh.AlertMute) string { return orAll(m.Object) }),
			{"UNTIL", func(m mesh.AlertMute, now time.Time) string { return at(m.Until, now) }},
			text("BY", func(m mesh.AlertMute) string { return string(m.By) }),
			text("REASON", func(m mesh.AlertMute) string { return m.Reason }),
		},
		fields: func(m mesh.AlertMute, now time.Time) []field {
			return []field{{"Rule", orAll(m.Rule)}, {"Object", orAll(m.Object)}, {"Until", at(m.Until, now)}, {"Reason", m.Reason}}
		},
	}
}

// muteFlags name what is muted.
type muteFlags struct {
	rule, object string
	all          bool
}

func (f *muteFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.rule, "rule", "", "alerts of this rule, one of meshctl admin alert rule list")
	c.Flags().StringVar(&f.object, "object", "", "alerts of this object: kind/name or kind/id, such as core/oslo")
	c.Flags().BoolVar(&f.all, "all", false, "all alerts")
	c.MarkFlagsMutuallyExclusive("all", "rule")
	c.MarkFlagsMutuallyExclusive("all", "object")
	c.MarkFlagsOneRequired("all", "rule", "object")
}

func newAlertMute(a *adminCLI) *cobra.Command {
	var f muteFlags
	var reason string
	var long time.Duration
	n := muteNoun()
	c := &cobra.Command{
		Use: "mute", Short: "Keep people from being told for a while", Args: takes(),
		Long: `Keep people from being told for a while. Muted alerts are listed as before, and
people hear of what still fires when the mute is over.`,
		Example: "  meshctl admin alert mute --object core/oslo --for 4h --reason \"moves to another house\"\n  meshctl admin alert mute --rule core-lost --for 30m",
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.AlertMute, admin.AlertMuteRequest{Rule: f.rule, Object: f.object, Time: mesh.Duration(long), Reason: reason})
			if err != nil {
				return err
			}
			return changed(s, n, v, "made, until "+at(v.Until, s.now))
		}),
	}
	f.add(c)
	c.Flags().DurationVar(&long, "for", time.Hour, "how long, at most 720h")
	c.Flags().StringVar(&reason, "reason", "", "why, for the others")
	return c
}

func newAlertUnmute(a *adminCLI) *cobra.Command {
	var f muteFlags
	c := &cobra.Command{
		Use: "unmute", Short: "End a mute, named as it was made", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			if _, err := ask(ctx, s, admin.AlertUnmute, admin.AlertUnmuteRequest{Rule: f.rule, Object: f.object, All: f.all}); err != nil {
				return err
			}
			return s.say("unmuted")
		}),
	}
	f.add(c)
	c.Flags().Lookup("all").Usage = "every mute there is"
	return c
}

func newAlertMutes(a *adminCLI) *cobra.Command {
	c := newList(a, muteNoun(), admin.AlertMutes, 0, plain)
	c.Use, c.Aliases = "mutes", nil
	return c
}
