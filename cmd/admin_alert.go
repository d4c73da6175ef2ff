package cmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func alertNoun() noun[admin.AlertView] {
	id := func(a admin.AlertView) string { return a.ID }
	object := func(a admin.AlertView) string {
		if kind, _, _ := strings.Cut(a.Object, "/"); a.Name != "" {
			return kind + "/" + a.Name
		}
		return a.Object
	}
	return noun[admin.AlertView]{
		one: "alert", many: "alerts", asIs: true, prose: "CAUSE", empty: "nothing is to be looked at",
		id: id, label: func(a admin.AlertView) string { return a.Rule + " of " + object(a) },
		refs: refs(admin.AlertList, func(p admin.Page) (admin.AlertListRequest, error) { return admin.AlertListRequest{Page: p}, nil }, id),
		columns: []column[admin.AlertView]{
			text("SEVERITY", func(a admin.AlertView) string { return string(a.Severity) }),
			text("ALERT", func(a admin.AlertView) string { return a.Rule }),
			text("OBJECT", object),
			text("STATE", alertState),
			{"SINCE", func(a admin.AlertView, now time.Time) string { return age(a.Since, now) }},
			text("CAUSE", func(a admin.AlertView) string { return a.Cause }),
			text("ID", id),
		},
		fields: func(a admin.AlertView, now time.Time) []field {
			f := []field{
				{"Alert", a.Rule}, {"Id", a.ID}, {"What", a.What}, {"Object", object(a)}, {"Severity", string(a.Severity)},
				{"State", alertState(a)}, {"Since", at(a.Since, now)}, {"Changed", at(a.Changed, now)}, {"Told", at(a.Told, now)},
				{"Times in a day", count(a.Times)}, {"Cause", a.Cause}, {"What to do", a.Advice},
			}
			if a.Acknowledged != nil {
				f = append(f, field{"Taken care of by", string(a.Acknowledged.By) + ", " + at(a.Acknowledged.At, now)})
			}
			if !a.Muted.IsZero() {
				f = append(f, field{"Muted until", at(a.Muted, now)})
			}
			return f
		},
	}
}

// alertState is the state, and what keeps people from hearing of it.
func alertState(a admin.AlertView) string {
	out := string(a.State)
	if a.Acknowledged != nil {
		out += ", acknowledged"
	}
	if !a.Muted.IsZero() {
		out += ", muted"
	}
	return out
}

func newAdminAlert(a *adminCLI) *cobra.Command {
	n := alertNoun()
	c := group("alert", "What is to be looked at, and who is told",
		newAlertList(a, n), newShow(a, n, admin.AlertGet), newAlertAck(a, n),
		newAlertMute(a), newAlertUnmute(a), newAlertMutes(a), newAlertRule(a), newAdminWebhook(a))
	c.Long = `Rules over events and the state of the mesh raise alerts. Administrators who are
linked with Telegram hear of them through the bot, programs through webhooks.`
	return c
}

func newAlertList(a *adminCLI, n noun[admin.AlertView]) *cobra.Command {
	var req admin.AlertListRequest
	var severity string
	c := newList(a, n, admin.AlertList, 0, func(p admin.Page) (admin.AlertListRequest, error) {
		req.Page, req.Severity = p, mesh.Severity(severity)
		return req, nil
	})
	c.Long = `List what fires, the most severe first. A terminal that is narrow has causes cut short:
"meshctl admin alert show" has all of one, and -o json of each.`
	c.Flags().BoolVarP(&req.All, "all", "a", false, "what is pending, and what was over within the last day, too")
	c.Flags().StringVar(&severity, "severity", "", "at least this severe: info, warning or critical")
	c.Flags().StringVar(&req.Rule, "rule", "", "only of this rule")
	c.Flags().StringVar(&req.Object, "object", "", "only of this object: kind/name or kind/id")
	return c
}

func newAlertAck(a *adminCLI, n noun[admin.AlertView]) *cobra.Command {
	var off bool
	c := &cobra.Command{
		Use: "ack ALERT", Short: "Say that you take care of an alert", Args: takes("ALERT"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Say that you take care of an alert: nobody is reminded of it any more, and all are
told when it is over. ALERT is an id, or a rule or an object of which one alert fires.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := ask(ctx, s, admin.AlertAck, admin.AlertAckRequest{Ref: args[0], Off: off})
			if err != nil {
				return err
			}
			if off {
				return changed(s, n, v, "no longer acknowledged")
			}
			return changed(s, n, v, "acknowledged")
		}),
	}
	c.Flags().BoolVar(&off, "off", false, "nobody takes care of it any more")
	return c
}
