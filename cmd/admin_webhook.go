package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// lookEvery is how often the outcome of a test is looked for.
const lookEvery = 500 * time.Millisecond

func webhookNoun() noun[admin.WebhookView] {
	name := func(h admin.WebhookView) string { return h.Name }
	what := func(h admin.WebhookView) string {
		out := "alerts"
		if h.Events {
			out += ", events"
		}
		if h.Severity != "" {
			out += " from " + string(h.Severity)
		}
		return out
	}
	state := func(h admin.WebhookView) string {
		switch {
		case h.State.Reason != "":
			return fmt.Sprintf("failed %d: %s", h.State.Failures, h.State.Reason)
		case h.State.Succeeded.IsZero():
			return "never used"
		}
		return "works"
	}
	return noun[admin.WebhookView]{
		one: "webhook", many: "webhooks", id: name, label: name, refs: refs(admin.WebhookList, plain, name),
		empty: "add one with `meshctl admin alert webhook add NAME`",
		columns: []column[admin.WebhookView]{
			text("NAME", name),
			text("HOST", func(h admin.WebhookView) string { return h.Host }),
			text("GETS", what),
			text("WAITING", func(h admin.WebhookView) string { return count(h.Waiting) }),
			text("STATE", state),
			{"LAST SUCCESS", func(h admin.WebhookView, now time.Time) string { return age(h.State.Succeeded, now) }},
		},
		fields: func(h admin.WebhookView, now time.Time) []field {
			return []field{{"Name", h.Name}, {"Host", h.Host}, {"Gets", what(h)}, {"Waiting", count(h.Waiting)}, {"State", state(h)}, {"Last success", at(h.State.Succeeded, now)}}
		},
	}
}

func newAdminWebhook(a *adminCLI) *cobra.Command {
	n := webhookNoun()
	return group("webhook", "URLs that alerts are posted to, signed",
		newList(a, n, admin.WebhookList, 0, plain), newWebhookAdd(a, n), newWebhookTest(a, n),
		newRemove(a, n, admin.WebhookRemove, "What waits for it is not posted any more."))
}

func newWebhookAdd(a *adminCLI, n noun[admin.WebhookView]) *cobra.Command {
	var urlFile, secretFile, severity string
	var req admin.WebhookAddRequest
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a webhook", Args: takes("NAME"),
		Long: `Add a webhook. Its URL comes from a file, since whoever has it can often post too.
Each post is signed with a secret of its own, which is made unless --secret-file brings
one, and shown this once. How a receiver checks it: docs/alerts.md.`,
		Example: "  meshctl admin alert webhook add on-call --url-file url.txt --severity critical",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if urlFile == "" {
				return usagef("no URL").hint("give --url-file FILE; - reads from standard input")
			}
			url, err := readSecretFile(ctx, "--url-file", urlFile, s.cmd.InOrStdin())
			if err != nil {
				return err
			}
			req.Name, req.URL, req.Severity = args[0], url.Reveal(), mesh.Severity(severity)
			if secretFile != "" {
				secret, err := readSecretFile(ctx, "--secret-file", secretFile, s.cmd.InOrStdin())
				if err != nil {
					return err
				}
				req.Secret = secret.Reveal()
			}
			v, err := ask(ctx, s, admin.WebhookAdd, req)
			if err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), v)
			}
			if err := changed(s, n, v.WebhookView, "added"); err != nil || v.Secret == "" {
				return err
			}
			return s.say("secret of its signatures, shown this once: %s", v.Secret)
		}),
	}
	fs := c.Flags()
	fs.StringVar(&urlFile, "url-file", "", "file with the URL, mode 0600; -: standard input")
	fs.StringVar(&secretFile, "secret-file", "", "file with the secret of the signatures, mode 0600; empty: one is made")
	fs.StringVar(&severity, "severity", "", "only what is at least this severe: info, warning or critical")
	fs.BoolVar(&req.Events, "events", false, "every event too, not alerts alone")
	fs.BoolVar(&req.Replace, "replace", false, "put it in the place of the one of that name")
	return c
}

func newWebhookTest(a *adminCLI, n noun[admin.WebhookView]) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use: "test WEBHOOK", Short: "Post a notice that says nothing", Args: takes("WEBHOOK"), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := ask(ctx, s, admin.WebhookTest, admin.Ref{Ref: args[0]})
			if err != nil {
				return err
			}
			if v, err = s.settled(ctx, v, wait); err != nil {
				return err
			}
			if v.Waiting > 0 {
				why := orText(v.State.Reason, fmt.Sprintf("nobody has tried within %v", wait))
				return fmt.Errorf("webhook %s: not taken: %s: %w", v.Name, why, mesh.ErrUnavailable)
			}
			return changed(s, n, v, "took it")
		}),
	}
	c.Flags().DurationVar(&wait, "wait", 20*time.Second, "how long to wait for it to be taken")
	return c
}

// settled waits until nothing waits for a webhook any more, or it has failed anew.
func (s *adminSession) settled(ctx context.Context, h admin.WebhookView, wait time.Duration) (admin.WebhookView, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for before, end := h.State, time.Now().Add(wait); h.Waiting > 0 && time.Now().Before(end); {
		if h.State.Reason != "" && h.State != before {
			break
		}
		select {
		case <-ctx.Done():
			return h, ctx.Err()
		case <-tick.C:
		}
		var err error
		if h, err = webhookNow(ctx, s, h.Name); err != nil {
			return h, err
		}
	}
	return h, nil
}

// webhookNow is a webhook as it is now.
func webhookNow(ctx context.Context, s *adminSession, name string) (admin.WebhookView, error) {
	l, err := ask(ctx, s, admin.WebhookList, admin.Page{})
	if err != nil {
		return admin.WebhookView{}, err
	}
	for _, h := range l.Items {
		if h.Name == name {
			return h, nil
		}
	}
	return admin.WebhookView{}, fmt.Errorf("webhook %s: %w", mesh.Quotable(name), mesh.ErrNotFound)
}
