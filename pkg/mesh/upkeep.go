package mesh

import (
	"slices"
	"time"
)

// Upkeep is what time alone changes of a device at now: labels and earlier
// places that have ended are dropped, and the label is replaced when its time has come. It returns when that
// is to be looked at again; zero: never.
func (d Device) Upkeep(c Config, now time.Time) (Device, time.Time) {
	d.Labels = slices.DeleteFunc(slices.Clone(d.Labels), func(l Label) bool { return ended(l.NotAfter, now) })
	d.Earlier = withoutEnded(d.Earlier, now)
	next := sooner(earliest(d.Labels, func(l Label) time.Time { return l.NotAfter }), earliest(d.Earlier, EarlierPlace.end))
	if d.State != DeviceActive || !c.rotates() || d.Subscription.Hash == "" || len(d.Labels) == 0 {
		return d, next
	}
	last := d.Labels[len(d.Labels)-1]
	return upkeep(d, c, later(last.Since, d.Created), now, next, (*Device).RotateLabel)
}

// Upkeep is the same for a cell and its paths, which it is given if it has none.
func (c Cell) Upkeep(cfg Config, now time.Time) (Cell, time.Time) {
	c.Earlier = withoutEnded(c.Earlier, now)
	next := earliest(c.Earlier, EarlierPlace.end)
	if c.State == CellRetired {
		return c, next
	}
	c.Paths = slices.DeleteFunc(slices.Clone(c.Paths), func(p Paths) bool { return ended(p.NotAfter, now) })
	if len(c.Paths) == 0 {
		c.RotatePaths(now, 0)
	}
	next = sooner(next, earliest(c.Paths, func(p Paths) time.Time { return p.NotAfter }))
	if !cfg.rotates() {
		return c, next
	}
	last := c.Paths[len(c.Paths)-1]
	return upkeep(c, cfg, later(last.Since, c.Created), now, next, (*Cell).RotatePaths)
}

func upkeep[T any](v T, c Config, since, now, next time.Time, rotate func(*T, time.Time, time.Duration)) (T, time.Time) {
	every, overlap := time.Duration(c.Labels.Every), c.Labels.OverlapOrDefault()
	due := since.Add(every)
	if !now.Before(due) {
		rotate(&v, now, overlap)
		return v, sooner(next, now.Add(min(every, overlap)))
	}
	return v, sooner(next, due)
}

// rotates says whether clients can hear of what is replaced on a schedule.
func (c Config) rotates() bool { return c.Labels.Every > 0 && c.Subscription.Name != "" }

func ended(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner is the earlier of two times; zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func earliest[T any](all []T, end func(T) time.Time) (first time.Time) {
	for _, v := range all {
		first = sooner(first, end(v))
	}
	return first
}
