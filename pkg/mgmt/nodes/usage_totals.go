package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// sealAfter is how long after its end an hour may still be written.
	sealAfter = 3 * time.Minute
	// keepHours is how long hours are kept, and what meters that do not rise any
	// more had counted.
	keepHours = 31 * 24 * time.Hour
	// keepDeltas is the same for meters that a server keeps for a core.
	keepDeltas = 3 * time.Hour
	// keepGone is how long the totals of a device that is gone are kept, by when
	// nobody can write of it any more.
	keepGone = 48 * time.Hour
	// maxGone bounds how many of those one transaction drops.
	maxGone = 20
)

// tallier adds hours that are over to totals:
//
//	seal an hour ─▶ add all sealed ones to each total ─▶ note it ─▶ trim old hours
//
// Sealed hours do not change any more. Each step can be done again, also by
// another leader.
type tallier struct {
	store *store.Store
	// current says whether a meter is one of a core as it runs now; exists
	// whether there is such a device, as far as this server sees.
	current func(meter string) bool
	exists  func(mesh.DeviceID) bool
	guestOf mesh.GuestOf
}

// totals is one pass of the tallier.
func (l *leader) totals(ctx context.Context, _ bool) (time.Time, error) {
	t := tallier{
		store: l.s.Store,
		current: func(meter string) bool {
			core, meter, _ := strings.Cut(meter, ".")
			st, ok := l.s.view.status.Get(nodeOf(mesh.RoleCore, core))
			return ok && meter == meterOf(helloOf(st))
		},
		exists:  func(id mesh.DeviceID) bool { _, ok := l.s.view.devices.Get(id); return ok },
		guestOf: l.s.guestOf(),
	}
	if err := t.pass(ctx, time.Now()); err != nil {
		return time.Time{}, fmt.Errorf("nodes: add up traffic: %w", err)
	}
	return time.Time{}, nil
}

func (t tallier) pass(ctx context.Context, now time.Time) error {
	p, err := t.seal(ctx, now)
	if err != nil || p.Counted == p.Sealed {
		return err
	}
	hours, err := t.store.HoursFrom(ctx, p.Counted.Next())
	if err != nil {
		return err
	}
	var sealed []mesh.MeterHour
	for _, h := range hours {
		if h.Hour <= p.Sealed {
			sealed = append(sealed, h)
		}
	}
	for shard, list := range store.SplitHours(sealed) {
		if err := t.add(ctx, shard, list, p.Sealed); err != nil {
			return err
		}
	}
	if err := t.progress(ctx, func(have *mesh.TrafficProgress) { have.Counted = max(have.Counted, p.Sealed) }); err != nil {
		return err
	}
	_, err = t.store.TrimHours(ctx, before(p.Sealed, keepHours))
	return err
}

// before is the hour some time before another.
func before(h mesh.Hour, d time.Duration) mesh.Hour { return mesh.HourOf(h.Start().Add(-d)) }

// seal ends hours that have been over for a while. It goes by the hours that were
// written, so that a clock that is wrong for a moment seals nothing to come.
func (t tallier) seal(ctx context.Context, now time.Time) (p mesh.TrafficProgress, err error) {
	it, err := t.store.Progress.Get(ctx, store.TrafficKey)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return p, err
	}
	p = it.Value
	hours, err := t.store.HoursFrom(ctx, p.Sealed.Next())
	if err != nil {
		return p, err
	}
	for _, h := range hours {
		if !now.Before(h.Hour.Start().Add(time.Hour + sealAfter)) {
			p.Sealed = max(p.Sealed, h.Hour)
		}
	}
	if p.Sealed == it.Value.Sealed {
		return p, nil
	}
	return p, t.progress(ctx, func(have *mesh.TrafficProgress) { have.Sealed = max(have.Sealed, p.Sealed) })
}

func (t tallier) progress(ctx context.Context, f func(*mesh.TrafficProgress)) error {
	_, err := t.store.Update(ctx, func(tx *store.Tx) error {
		_, err := store.Get(tx, t.store.Progress, store.TrafficKey)
		if errors.Is(err, mesh.ErrNotFound) {
			var p mesh.TrafficProgress
			f(&p)
			return store.Create(tx, t.store.Progress, store.TrafficKey, p)
		}
		if err != nil {
			return err
		}
		return store.Update(tx, t.store.Progress, store.TrafficKey, func(p *mesh.TrafficProgress) error { f(p); return nil })
	})
	return err
}

// add brings one total up to date.
func (t tallier) add(ctx context.Context, shard string, hours []mesh.MeterHour, sealed mesh.Hour) error {
	_, err := t.store.Update(ctx, func(tx *store.Tx) error {
		totals, err := store.Get(tx, t.store.Totals, shard)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		changed := false
		for _, h := range hours {
			changed = totals.Add(h, t.guestOf) || changed
		}
		if !changed {
			return nil
		}
		totals.Forget(before(sealed, keepHours), t.current)
		totals.Forget(before(sealed, keepDeltas), func(meter string) bool {
			_, meter, _ = strings.Cut(meter, ".")
			return !strings.HasPrefix(meter, deltaMeter)
		})
		if err := t.dropGone(tx, &totals, before(sealed, keepGone)); err != nil {
			return err
		}
		if absent {
			return store.Create(tx, t.store.Totals, shard, totals)
		}
		return store.Update(tx, t.store.Totals, shard, func(have *mesh.TrafficTotals) error { *have = totals; return nil })
	})
	return err
}

// dropGone forgets devices that are gone for long; cores keep what they moved
// for them.
func (t tallier) dropGone(tx *store.Tx, totals *mesh.TrafficTotals, before mesh.Hour) error {
	looked := 0
	for id, d := range totals.Devices {
		if d.Last >= before || t.exists(id) {
			continue
		}
		if looked++; looked > maxGone {
			return nil
		}
		_, err := store.Get(tx, t.store.Devices, id)
		switch {
		case errors.Is(err, mesh.ErrNotFound):
			delete(totals.Devices, id)
		case err != nil:
			return err
		}
	}
	return nil
}
