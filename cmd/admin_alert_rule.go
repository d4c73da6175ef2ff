package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func alertRuleNoun() noun[admin.AlertRuleView] {
	name := func(r admin.AlertRuleView) string { return r.Rule }
	span := func(d mesh.Duration, none string) string {
		if d == 0 {
			return none
		}
		return shortDuration(time.Duration(d))
	}
	state := func(r admin.AlertRuleView) string {
		switch {
		case r.Disabled:
			return "off"
		case r.Changed:
			return "changed"
		}
		return ""
	}
	return noun[admin.AlertRuleView]{
		one: "rule", many: "rules", asIs: true, id: name, label: name, refs: refs(admin.AlertRules, plain, name),
		columns: []column[admin.AlertRuleView]{
			text("RULE", name),
			text("SEVERITY", func(r admin.AlertRuleView) string { return string(r.Severity) }),
			text("FIRING", func(r admin.AlertRuleView) string { return count(r.Firing) }),
			text("FOR", func(r admin.AlertRuleView) string { return span(r.For, "at once") }),
			text("CLEAR", func(r admin.AlertRuleView) string { return span(r.Clear, "at once") }),
			text("REPEAT", func(r admin.AlertRuleView) string { return span(r.Repeat, "never") }),
			text("SET", state),
			text("WHAT", func(r admin.AlertRuleView) string { return r.What }),
		},
		fields: func(r admin.AlertRuleView, _ time.Time) []field {
			return []field{
				{"Rule", r.Rule}, {"What", r.What}, {"Severity", string(r.Severity)}, {"For", span(r.For, "at once")},
				{"Clear", span(r.Clear, "at once")}, {"Repeat", span(r.Repeat, "never")}, {"Set", state(r)},
			}
		},
	}
}

func newAlertRule(a *adminCLI) *cobra.Command {
	n := alertRuleNoun()
	return group("rule", "Rules by which alerts are raised",
		newList(a, n, admin.AlertRules, 0, plain), newAlertRuleSet(a, n))
}

func newAlertRuleSet(a *adminCLI, n noun[admin.AlertRuleView]) *cobra.Command {
	var severity string
	var wait, gone, repeat time.Duration
	var off, reset bool
	c := &cobra.Command{
		Use: "set RULE", Short: "Change a rule", Args: takes("RULE"), ValidArgsFunction: completeArgs(a, n.refs),
		Long:    "Change a rule. What no flag names stays as it is set.",
		Example: "  meshctl admin alert rule set core-lost --for 10m --repeat 0\n  meshctl admin alert rule set route-probing --off\n  meshctl admin alert rule set core-lost --reset",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange("severity", "for", "clear", "repeat", "off", "reset"); err != nil {
				return err
			}
			span := func(flag string, d time.Duration) *mesh.Duration { return given(s, flag, mesh.Duration(d)) }
			v, err := ask(ctx, s, admin.AlertRuleSet, admin.AlertRuleSetRequest{
				Rule: args[0], Reset: reset, Disabled: given(s, "off", off), Severity: given(s, "severity", mesh.Severity(severity)),
				For: span("for", wait), Clear: span("clear", gone), Repeat: span("repeat", repeat),
			})
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	fs := c.Flags()
	fs.StringVar(&severity, "severity", "", "info, warning or critical; people on Telegram hear of warnings and worse")
	fs.DurationVar(&wait, "for", 0, "how long the cause must last before anybody is told")
	fs.DurationVar(&gone, "clear", 0, "how long it must be gone before the alert is over")
	fs.DurationVar(&repeat, "repeat", 0, "how often people are reminded; 0: never")
	fs.BoolVar(&off, "off", false, "raise no such alerts; --off=false: raise them again")
	fs.BoolVar(&reset, "reset", false, "make it what it was before it was ever changed")
	return c
}
