package backup

import (
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// auditLog writes the records since the base into segments, and notes who did
// what. Without recipients nothing is written, and a later backup, with some,
// begins with the first record that is kept.
func (d *draft) auditLog(source AuditSource) error {
	d.m.Audit = d.base.m.Audit
	if source == nil {
		return nil
	}
	l := &auditLog{d: d, index: d.base.audit, as: d.base.auditAs, named: d.base.m.Audit.Through}
	from := l.named
	if !d.to.empty() {
		from = ""
		if l.index != nil {
			from, l.through = l.index.after(), l.index.Through
		}
	}
	last := from
	for o, err := range source(from) {
		if err != nil {
			return fmt.Errorf("backup: draft audit: %w", err)
		}
		if o.ID <= last || !validID(o.ID) || len(o.JSON) > MaxObject {
			return fmt.Errorf("backup: draft audit: record %q: want one that comes after %s: %w", mesh.Quotable(o.ID), last, mesh.ErrInvalid)
		}
		last = o.ID
		if err := l.add(o); err != nil {
			return err
		}
	}
	return l.close()
}

// auditLog is the writing of audit records under way.
type auditLog struct {
	d       *draft
	index   *auditIndex
	as      []byte // the index as it was last written
	named   string // records up to this one were named before
	through string // the last record that was in the base
	pending []Object
	day     string // of pending
	size    int
	fresh   bool // index differs from as
}

func (l *auditLog) add(o Object) error {
	if l.index != nil && l.index.has(o.ID) {
		return nil
	}
	if o.ID > l.named || o.ID <= l.through {
		l.d.sum.record(o.JSON)
		l.named, l.d.named = max(l.named, o.ID), true
		l.d.m.Audit.Through = l.named
	}
	if l.d.to.empty() {
		return nil
	}
	day := dayOf(o.ID, l.d.s.Time)
	if l.index != nil {
		day = max(day, l.index.Day) // days do not go back
	}
	if len(l.pending) > 0 && (day > l.day || l.size > maxSegment) {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.day = max(day, l.day)
	l.pending = append(l.pending, o)
	l.size += len(o.JSON)
	return nil
}

// flush writes what is pending as a segment, into the index of its day.
func (l *auditLog) flush() error {
	var s segment
	s.records = l.pending
	if l.index != nil {
		s.Before = l.index.last()
	}
	if err := l.turn(); err != nil {
		return err
	}
	plain, err := s.encode()
	if err != nil {
		return fmt.Errorf("backup: draft audit: %w", err)
	}
	sealed, err := l.d.to.seal(plain)
	if err != nil {
		return fmt.Errorf("backup: draft audit: %w", err)
	}
	path := segmentPath(l.index.Day, l.pending[0].ID)
	l.index.add(l.pending, digest(sealed))
	l.pending, l.size, l.fresh = nil, 0, true
	return l.d.put(path, sealed)
}

// turn begins the index of the day of what is pending.
func (l *auditLog) turn() error {
	if l.index != nil && l.index.Day == l.day {
		return nil
	}
	next := &auditIndex{Day: l.day}
	if l.index != nil {
		next.Through, next.Recent = l.index.Through, slices.Clone(l.index.Recent)
		data, err := l.encoded()
		if err != nil {
			return err
		}
		next.Before = &auditDay{Day: l.index.Day, Index: digest(data)}
		if err := l.d.put(dayIndexPath(l.index.Day), data); err != nil {
			return err
		}
	}
	l.index = next
	return nil
}

func (l *auditLog) encoded() ([]byte, error) {
	if !l.fresh {
		return l.as, nil
	}
	data, err := l.index.encode()
	if err != nil {
		return nil, fmt.Errorf("backup: draft audit: %w", err)
	}
	return data, nil
}

func (l *auditLog) close() error {
	if len(l.pending) > 0 {
		if err := l.flush(); err != nil {
			return err
		}
	}
	if !l.fresh {
		return nil
	}
	data, err := l.encoded()
	if err != nil {
		return err
	}
	l.d.m.Audit.Index = digest(data)
	return l.d.put(fileAudit, data)
}
