package cmd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newAdminSub(a *adminCLI) *cobra.Command {
	return group("sub", "The subscription service: what clients are told",
		newSubStatus(a),
		newSubExplain(a),
		group("rule", "Which format a client is served, by its User-Agent", newSubRuleAdd(a), newSubRuleList(a), newSubRuleRemove(a)),
	)
}

func subStatusNoun() noun[admin.SubStatus] {
	return noun[admin.SubStatus]{
		one: "subscription service", many: "subscription services",
		id: func(v admin.SubStatus) string { return string(v.Name) }, label: func(v admin.SubStatus) string { return string(v.Name) },
		fields: func(v admin.SubStatus, now time.Time) []field {
			if v.Name == "" {
				return []field{{"Name", "none"}, {"Devices with a link", fmt.Sprintf("%d of %d", v.Linked, v.Linked+v.Unlinked)}}
			}
			return []field{
				{"Name", string(v.Name)},
				{"Links begin with", v.URL},
				{"Certificate", string(v.Certificate)},
				{"Certificate ends", cmp.Or(at(v.CertEnds, now), "none here")},
				{"Servers", cmp.Or(listOf(v.Servers), "none")},
				{"Clients look every", shortDuration(time.Duration(v.Interval))},
				{"Devices with a link", fmt.Sprintf("%d of %d", v.Linked, v.Linked+v.Unlinked)},
				{"Own rules", count(v.Rules)},
			}
		},
	}
}

func newSubStatus(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how the subscription service is set up", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.SubStatusGet, admin.None{})
			if err != nil {
				return err
			}
			if err := printOne(s.out(), s.format, subStatusNoun(), v, s.now); err != nil {
				return err
			}
			for _, w := range v.Warnings {
				if err := s.say("warning: %s", clean(w)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func newSubExplain(a *adminCLI) *cobra.Command {
	var req admin.SubExplainRequest
	c := &cobra.Command{
		Use: "explain DEVICE", Short: "Say what a client of a device would be served, and why", Args: takes("DEVICE"), ValidArgsFunction: completeArgs(a, deviceNoun().refs),
		Long: `Say what a client of a device would be served, and why: the rule and the format it
comes to, the cells and cores, the ways in that the document has, and those that are
left out with the reason. It shows no secret.`,
		Example: "  meshctl admin sub explain alice/phone --user-agent 'SFA/1.14.1 (sing-box 1.14.1)'\n" +
			"  meshctl admin sub explain alice/phone --format clash",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			req.Ref = args[0]
			v, err := ask(ctx, s, admin.SubExplain, req)
			if err != nil {
				return err
			}
			switch {
			case s.format.structured():
				return s.format.print(s.out(), v)
			case s.format == outputName:
				_, err := fmt.Fprintln(s.out(), v.Format)
				return err
			}
			return printExplanation(s, v)
		}),
	}
	c.Flags().StringVar(&req.UserAgent, "user-agent", "", "what the client calls itself")
	c.Flags().StringVar(&req.Accept, "accept", "", "what it accepts, such as text/html for a browser")
	c.Flags().StringVar(&req.Format, "format", "", "what ?format= of the link asks for")
	completeFormats(c, "format")
	return c
}

// printExplanation prints what decided, then the ways in, then what is missing.
func printExplanation(s *adminSession, v admin.SubExplanation) error {
	link := at(v.Linked, s.now)
	if link == "" {
		link = "none: meshctl admin device link " + string(v.Device)
	}
	err := printFields(s.out(), []field{
		{"Device", v.MemberName + "/" + v.DeviceName},
		{"Link", link},
		{"Standing", string(v.Standing)},
		{"Format", v.Format},
		{"Rule", v.Rule},
		{"Note", v.Note},
		{"Notice", v.Notice},
		{"Fallback", yesNo(v.Fallback)},
	})
	if err != nil {
		return err
	}
	if err := section(s, v.Cells, []column[admin.SubCell]{
		text("CELL", func(c admin.SubCell) string { return c.Name }),
		text("STATE", func(c admin.SubCell) string { return string(c.State) }),
		text("AS", func(c admin.SubCell) string {
			if c.Guest {
				return "guest"
			}
			return "at home"
		}),
		text("CORES", func(c admin.SubCell) string { return cmp.Or(listOf(c.Cores), "none yet") }),
	}); err != nil {
		return err
	}
	if err := section(s, v.Nodes, []column[admin.SubNode]{
		text("WAY IN", func(n admin.SubNode) string { return n.Name }),
		text("OFFER", func(n admin.SubNode) string { return n.Offer.String() }),
		text("ENTRY", func(n admin.SubNode) string { return n.Address }),
		text("SERVER NAME", func(n admin.SubNode) string { return string(n.ServerName) }),
	}); err != nil {
		return err
	}
	return section(s, v.Left, []column[admin.SubLeft]{
		text("LEFT OUT", func(l admin.SubLeft) string { return l.Name }),
		text("CELL", func(l admin.SubLeft) string { return l.Cell }),
		text("REASON", func(l admin.SubLeft) string { return l.Reason }),
	})
}

// section is a table after an empty line, if there is anything in it.
func section[T any](s *adminSession, items []T, columns []column[T]) error {
	if len(items) == 0 {
		return nil
	}
	if err := s.say(""); err != nil {
		return err
	}
	return printTable(s.out(), columns, items, s.now, true)
}

func completeFormats(c *cobra.Command, flag string) {
	var words []string
	for _, f := range formats() {
		words = append(words, string(f))
	}
	complete(c, flag, words...)
}

func agentOf(r mesh.AgentRule) string {
	out := r.Match
	if r.From != "" {
		out += " from " + r.From
	}
	if r.Below != "" {
		out += " below " + r.Below
	}
	return out
}
