package cmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

func formats() []subscription.Format { return subscription.Formats() }

func subRuleNoun() noun[admin.SubRule] {
	place := func(r admin.SubRule) string {
		if r.Place == 0 {
			return "built-in"
		}
		return count(r.Place)
	}
	return noun[admin.SubRule]{
		one: "rule", many: "rules", asIs: true, id: place, label: func(r admin.SubRule) string { return place(r) + " (" + agentOf(r.AgentRule) + ")" },
		columns: []column[admin.SubRule]{
			text("PLACE", place),
			text("USER-AGENT", func(r admin.SubRule) string { return r.Match }),
			text("FROM", func(r admin.SubRule) string { return r.From }),
			text("BELOW", func(r admin.SubRule) string { return r.Below }),
			text("FORMAT", func(r admin.SubRule) string { return r.Format }),
		},
	}
}

func newSubRuleAdd(a *adminCLI) *cobra.Command {
	var req admin.SubRuleAddRequest
	c := &cobra.Command{
		Use: "add USER-AGENT FORMAT", Short: "Add a rule of your own", Args: takes("USER-AGENT", "FORMAT"),
		Long: `Add a rule of your own: a client whose User-Agent contains that text, in whatever
case, is served that format. The first rule that matches counts, and your own go
before the built-in ones. --from and --below bound the version after the text.`,
		Example: "  meshctl admin sub rule add MyApp clash\n  meshctl admin sub rule add SFA sing-box-old --below 1.12 --place 1",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var words []string
			if len(args) == 1 {
				for _, f := range formats() {
					words = append(words, string(f))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			req.Rule.Match, req.Rule.Format = args[0], args[1]
			v, err := ask(ctx, s, admin.SubRuleAdd, req)
			if err != nil {
				return err
			}
			return reportRule(s, v, "added")
		}),
	}
	c.Flags().StringVar(&req.Rule.From, "from", "", "only this version and later, such as 1.12")
	c.Flags().StringVar(&req.Rule.Below, "below", "", "only versions before this one")
	c.Flags().IntVar(&req.Place, "place", 0, "put it before the rule at this place; 0: after your others")
	return c
}

func newSubRuleList(a *adminCLI) *cobra.Command {
	c := newList(a, subRuleNoun(), admin.SubRuleList, 0, plain)
	c.Long = "List rules in the order in which they are tried: your own, then those that are built in."
	return c
}

func newSubRuleRemove(a *adminCLI) *cobra.Command {
	var match string
	c := &cobra.Command{
		Use: "remove PLACE", Aliases: []string{"rm"}, Short: "Remove a rule of your own", Args: takes("PLACE"), ValidArgsFunction: completeArgs(a, ownPlaces),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			place, err := strconv.Atoi(args[0])
			if err != nil || place < 1 {
				return usagef("%q: want the place of a rule of your own, counted from 1", mesh.Quotable(args[0])).hint("see `meshctl admin sub rule list`")
			}
			v, err := ask(ctx, s, admin.SubRuleRemove, admin.SubRuleRemoveRequest{Place: place, Match: match})
			if err != nil {
				return err
			}
			return reportRule(s, v, "removed")
		}),
	}
	c.Flags().StringVar(&match, "match", "", "refuse unless the rule is for this text: rules move when others are removed")
	return c
}

// ownPlaces are what can be removed.
func ownPlaces(ctx context.Context, s *adminSession) ([]string, error) {
	l, err := ask(ctx, s, admin.SubRuleList, admin.Page{})
	var out []string
	for _, r := range l.Items {
		if r.Place > 0 {
			out = append(out, fmt.Sprintf("%d\t%s → %s", r.Place, clean(agentOf(r.AgentRule)), r.Format))
		}
	}
	return out, err
}

func reportRule(s *adminSession, v admin.SubRule, done string) error {
	switch {
	case s.format.structured():
		return s.format.print(s.out(), v)
	case s.format == outputName:
		_, err := fmt.Fprintln(s.out(), v.Place)
		return err
	}
	return s.say("rule %d %s: %s is served %s", v.Place, done, clean(agentOf(v.AgentRule)), v.Format)
}
