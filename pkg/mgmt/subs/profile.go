package subs

import (
	"cmp"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// Profile is what the client of a device is to learn now, but for the address of
// its page, which holds a secret. It returns ErrNotFound for a device that does
// not exist or is gone for good.
func (s *Service) Profile(id mesh.DeviceID) (subscription.Profile, error) {
	d, ok := s.State.Device(id)
	if !ok {
		return subscription.Profile{}, fmt.Errorf("subs: device %s: %w", mesh.Quotable(string(id)), mesh.ErrNotFound)
	}
	return s.profile(d, s.now())
}

// Explain says what a client of the device would be served now, and why.
func (s *Service) Explain(id mesh.DeviceID, userAgent, accept, format string) (subscription.Explanation, error) {
	p, err := s.Profile(id)
	if err != nil {
		return subscription.Explanation{}, err
	}
	rules := subscription.Rules{Agents: s.State.Config().Subscription.Agents}
	return subscription.Explain(rules.Choose(userAgent, accept, format), p), nil
}

func (s *Service) profile(d mesh.Device, now time.Time) (subscription.Profile, error) {
	who := s.people(d)
	m, ok := who.Members[d.Member]
	standing := who.Standing(d, m.Value, now)
	if !ok || standing == mesh.StandingGone {
		return subscription.Profile{}, fmt.Errorf("subs: device %s: it is gone: %w", d.ID, mesh.ErrNotFound)
	}
	cfg := s.State.Config()
	used := d.Counted(s.pulse.moved(d.ID))
	p := subscription.Profile{
		Title: cfg.Subscription.Title, Announce: cfg.Subscription.Announce, SupportURL: cfg.Subscription.SupportURL,
		PageURL:  cfg.Subscription.PageURL,
		Interval: cmp.Or(time.Duration(cfg.Subscription.UpdateInterval), defaultInterval),
		Member:   m.Value.Name, Device: d.Name, Standing: standing,
		Up: used.Up, Down: used.Down, Limit: d.Limits.Traffic, Expires: d.Limits.Expires,
	}
	p.AsOf, p.Stale = s.pulse.age()
	if standing != mesh.StandingOK {
		return p, nil
	}
	secret, err := s.State.Secret(d)
	if err != nil {
		return p, err
	}
	given, left := places(who, d, now)
	p.Hidden = left
	for _, at := range given {
		w := waysOf{
			device: d, cell: at.Cell, guest: at.Guest, running: s.State.Running(at.Cell.ID), routes: s.State.Routed,
			secret: secret, entries: entryAddresses(cfg), now: now,
		}
		nodes, left := w.ways()
		p.Nodes, p.Hidden = append(p.Nodes, nodes...), append(p.Hidden, left...)
	}
	return p, nil
}
