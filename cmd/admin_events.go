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
	followEvery    = time.Second
)

func eventNoun() noun[mesh.Event] {
	id := func(e mesh.Event) string { return e.ID }
	return noun[mesh.Event]{
		one: "event", many: "events",
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
	var kind, since string
	var follow bool
	n := eventNoun()
	request := func(p admin.Page) (admin.EventListRequest, error) {
		req := admin.EventListRequest{Page: p, Type: mesh.EventType(kind)}
		var err error
		if since != "" {
			if req.Since, err = parseSince(since, time.Now()); err != nil {
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
			return followEvents(ctx, s, n, request)
		})(c, args)
	}
	c.Flags().StringVar(&kind, "type", "", "only events of this type")
	c.Flags().StringVar(&since, "since", "", "only what happened since: 2h, 2027-01-31 or a time")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens, oldest first, until interrupted")
	return c
}

// followEvents prints what is there and then what comes, each once, until ctx
// ends.
func followEvents(ctx context.Context, s *adminSession, n noun[mesh.Event], request func(admin.Page) (admin.EventListRequest, error)) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	last, limit := "", defaultRecords
	for {
		l, err := pages(ctx, s, admin.EventList, limit, request)
		if ctx.Err() != nil {
			return nil // interrupted: the way this command ends
		}
		if err != nil {
			return err
		}
		fresh := newer(l.Items, last)
		if err := printEvents(s, n, fresh); err != nil {
			return err
		}
		if len(fresh) > 0 {
			last = fresh[len(fresh)-1].ID
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// newer returns what is after last, oldest first.
func newer(events []mesh.Event, last string) []mesh.Event {
	var out []mesh.Event
	for _, e := range slices.Backward(events) {
		if e.ID > last {
			out = append(out, e)
		}
	}
	return out
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
