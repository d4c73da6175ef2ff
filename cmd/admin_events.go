package cmd

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	defaultRecords = 50
	followWait     = 20 * time.Second
)

func eventNoun() noun[mesh.Event] {
	id := func(e mesh.Event) string { return e.ID }
	return noun[mesh.Event]{
		one: "event", many: "events", asIs: true,
		id: id, label: id,
		columns: []column[mesh.Event]{
			text("TIME", func(e mesh.Event) string { return stamp(e.Time) }),
			text("SEVERITY", func(e mesh.Event) string { return string(e.Severity) }),
			text("TYPE", func(e mesh.Event) string { return string(e.Type) }),
			text("OBJECT", func(e mesh.Event) string { return e.Object }),
			text("CAUSE", func(e mesh.Event) string { return e.Cause }),
			text("ADVICE", func(e mesh.Event) string { return e.Advice }),
		},
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func newAdminEvents(a *adminCLI) *cobra.Command {
	var kind, since, severity, object string
	var follow bool
	n := eventNoun()
	request := func(p admin.Page) (admin.EventListRequest, error) {
		req := admin.EventListRequest{Page: p, Type: mesh.EventType(kind), Severity: mesh.Severity(severity), Object: object}
		var err error
		if since != "" {
			if req.Since, err = mesh.ParseSince(since, time.Now()); err != nil {
				err = usagef("--since: %v", err)
			}
		}
		return req, err
	}
	c := newList(a, n, admin.EventList, defaultRecords, request)
	c.Use, c.Aliases, c.Short = "events", nil, "Show what happened, newest first"
	list := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !follow {
			return list(c, args)
		}
		return a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			limit, err := s.cmd.Flags().GetInt("limit")
			if err != nil {
				return err
			}
			return followEvents(ctx, s, n, limit, request)
		})(c, args)
	}
	c.Flags().StringVar(&kind, "type", "", "only events of this type")
	c.Flags().StringVar(&severity, "severity", "", "only events at least this severe: info, warning or critical")
	c.Flags().StringVar(&object, "object", "", "only events of this object: kind/id, or the id alone")
	c.Flags().StringVar(&since, "since", "", "only what happened since: 2h, 2027-01-31 or a time")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens, oldest first, until interrupted")
	return c
}

// followEvents prints the last events, as many as limit, and then what comes,
// each once, until ctx ends.
func followEvents(ctx context.Context, s *adminSession, n noun[mesh.Event], limit int, request func(admin.Page) (admin.EventListRequest, error)) error {
	req, err := request(admin.Page{})
	if err != nil {
		return err
	}
	at, err := ask(ctx, s, admin.EventFollow, admin.EventFollowRequest{})
	if err != nil {
		return err
	}
	l, err := pages(ctx, s, admin.EventList, limit, request)
	slices.Reverse(l.Items)
	printed := map[string]bool{} // what came between the two answers is in both
	for fresh := l.Items; ; fresh = at.Items {
		if ctx.Err() != nil {
			return nil // interrupted: the way this command ends
		}
		if err != nil {
			return err
		}
		fresh = slices.DeleteFunc(fresh, func(e mesh.Event) bool { return printed[e.ID] })
		if err := printEvents(s, n, fresh); err != nil {
			return err
		}
		clear(printed)
		for _, e := range fresh {
			printed[e.ID] = true
		}
		next := admin.EventFollowRequest{
			Rev: at.Rev, Wait: mesh.Duration(min(followWait, s.cfg.Timeout/2)), Type: req.Type, Severity: req.Severity, Object: req.Object,
		}
		at, err = ask(ctx, s, admin.EventFollow, next)
		if mesh.Kind(err) == mesh.ErrUnavailable && ctx.Err() == nil {
			// A connection that ends in the midst of waiting does not say why: the
			// server may have stopped, or no longer admit who asks.
			at, err = ask(ctx, s, admin.EventFollow, next)
		}
	}
}

// printEvents writes one event a line; JSON one object after another.
func printEvents(s *adminSession, n noun[mesh.Event], events []mesh.Event) error {
	if s.format.String() == outputTable {
		return printTable(s.out(), n.columns, events, s.now, false)
	}
	for _, e := range events {
		if err := printOne(s.out(), s.format, n, e, s.now); err != nil {
			return err
		}
	}
	return nil
}
