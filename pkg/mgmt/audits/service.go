// Package audits keeps the chain over the audit records: one server at a time
// adds a link for what was written, and looks now and then whether all that was
// chained is as it was.
//
//	audit/<id> … ──an hour, or 500 records──▶ auditchain/<number> ──▶ backup
//	     ▲                                         │
//	     └────────── compared once a day ──────────┘
//
// How far it has got is in the store, so the next leader goes on there.
package audits

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Office is what servers elect the one for that adds links.
const Office = "audits"

// Service adds links while it leads. Set the fields, then run it.
type Service struct {
	Store  *store.Store
	Server mesh.ServerID
	Log    *slog.Logger
	Pace   Pace
}

// Pace says how often.
type Pace struct {
	Every  time.Duration // the age at which a record is chained at last; 0 is 1 h
	Most   int           // records at which a link is made before that; 0 is 500
	Margin time.Duration // the age at which a record may be chained; 0 is 1 min
	Look   time.Duration // between two looks at what there is; 0 is 1 min
	Check  time.Duration // between two checks of the whole; 0 is 24 h
}

func (p Pace) withDefaults() Pace {
	fill := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	fill(&p.Every, time.Hour)
	fill(&p.Margin, time.Minute)
	fill(&p.Look, time.Minute)
	fill(&p.Check, 24*time.Hour)
	if p.Most == 0 {
		p.Most = 500
	}
	return p
}

// Run waits for the office and holds it until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	return s.Store.Lead(ctx, Office, s.Server, s.lead)
}

// lead adds links and checks until ctx ends. What fails is done again with the
// next look.
func (s *Service) lead(ctx context.Context) error {
	p := s.Pace.withDefaults()
	tick := time.NewTicker(p.Look)
	defer tick.Stop()
	for checked := (time.Time{}); ; {
		s.step(ctx, "chain", func(ctx context.Context) error { return s.grow(ctx, p) })
		if time.Since(checked) >= p.Check {
			s.step(ctx, "check", s.check)
			checked = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Service) step(ctx context.Context, name string, f func(context.Context) error) {
	if err := f(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("audit records not chained or checked", "unit", name, "err", err)
	}
}

// grow adds links until nothing is due.
func (s *Service) grow(ctx context.Context, p Pace) error {
	for {
		added, err := s.link(ctx, p)
		if err != nil || !added {
			return err
		}
	}
}

// link adds the next link if it is due.
func (s *Service) link(ctx context.Context, p Pace) (added bool, err error) {
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		added = false
		last, err := store.LastLink(tx)
		if err != nil {
			return err
		}
		now := time.Now()
		raws, err := store.Unchained(tx, last, now.Add(-p.Margin), p.Most)
		if err != nil || !p.due(raws, now) {
			return err
		}
		records := make([]audit.Record, len(raws))
		for i, r := range raws {
			records[i] = audit.Record{ID: r.ID, JSON: r.Value}
		}
		next, err := audit.Link(last, records, now)
		if err != nil {
			return err
		}
		added = true
		return store.AddLink(tx, next)
	})
	return added && err == nil, err
}

// due says whether the records make a link.
func (p Pace) due(raws []store.Raw, now time.Time) bool {
	return len(raws) > 0 && (len(raws) >= p.Most || raws[0].ID < store.TimeIDBefore(now.Add(-p.Every)))
}
