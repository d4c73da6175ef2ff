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
	var kind, since string
	var follow bool
	n := eventNoun()
	request := func(p admin.Page) (admin.EventListRequest, error) {
		req := admin.EventListRequest{Page: p, Type: mesh.EventType(kind)}
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
	c.Flags().StringVar(&since, "since", "", "only what happened since: 2h, 2027-01-31 or a time")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens, oldest first, until interrupted")
	return c
}

// followEvents prints the last events, as many as limit, and then what comes,
// each once, until ctx ends.
func followEvents(ctx context.Context, s *adminSession, n noun[mesh.Event], limit int, request func(admin.Page) (admin.EventListRequest, error)) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var f follower
	for ; ; limit = 0 {
		l, err := pages(ctx, s, admin.EventList, limit, func(p admin.Page) (admin.EventListRequest, error) {
			req, err := request(p)
			if f.since.After(req.Since) {
				req.Since = f.since
			}
			return req, err
		})
		if ctx.Err() != nil {
			return nil // interrupted: the way this command ends
		}
		if err != nil {
			return err
		}
		if err := printEvents(s, n, f.fresh(l.Items)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lateness is how much after its id's time an event may become visible.
const lateness = 10 * time.Second

// follower tells new events from those printed already.
type follower struct {
	first string          // the oldest id of the first page
	seen  map[string]bool // printed, and not older than since
	since time.Time       // what is older need not be asked for again
}

// fresh returns what is new of a list since f.since, oldest first.
func (f *follower) fresh(events []mesh.Event) []mesh.Event {
	if f.seen == nil && len(events) > 0 {
		f.first = events[len(events)-1].ID
	}
	var out []mesh.Event
	seen := make(map[string]bool, len(events))
	for _, e := range slices.Backward(events) {
		if e.ID >= f.first && !f.seen[e.ID] {
			out = append(out, e)
		}
		seen[e.ID] = true
	}
	f.seen = seen
	if len(events) > 0 {
		f.since = events[0].Time.Add(-lateness)
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
