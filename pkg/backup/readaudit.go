package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// auditFile notes a file of the audit log, to be looked at when all are there.
func (r *reader) auditFile(path string, data []byte) {
	r.auditSums[path] = digest(data)
	if strings.HasSuffix(path, "/index.yaml") {
		r.auditDays[path] = data
	}
}

// auditChain goes from the newest day back to the first: each index names the
// one before it. It checks every segment, and reads those that are wanted.
func (r *reader) auditChain(ctx context.Context) error {
	expected := make(map[string]bool)
	var days []*auditIndex // newest first
	whole := r.m.Audit.Index == "" || r.base.audit != nil
	for a := r.base.audit; a != nil; {
		for _, s := range a.Segments {
			path := segmentPath(a.Day, s.First)
			expected[path] = true
			r.expect(path, s.Sum)
		}
		days = append(days, a)
		if a.Before == nil {
			break
		}
		path := dayIndexPath(a.Before.Day)
		expected[path] = true
		next, err := parseAuditIndex(r.auditDays[path])
		switch ok := r.expect(path, a.Before.Index); {
		case !ok:
			next, whole = nil, false
		case err != nil || next.Day != a.Before.Day:
			r.faults.add(path, "is not the index of that day")
			next, whole = nil, false
		}
		a = next
	}
	for _, path := range slices.Sorted(maps.Keys(r.auditSums)) {
		if whole && !expected[path] {
			r.faults.add(path, "is not in the index")
		}
	}
	if !whole || !r.opts.Audit || r.opts.Public || !r.m.Secrets {
		return nil
	}
	slices.Reverse(days)
	if err := r.readAudit(ctx, days); err != nil {
		return err
	}
	slices.SortFunc(r.state.Audit, func(a, b Object) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// expect checks that a file of the audit log is there and is the right one.
func (r *reader) expect(path, sum string) bool {
	switch have, ok := r.auditSums[path]; {
	case !ok:
		r.faults.add(path, "is missing")
	case have != sum:
		r.faults.add(path, "is not the file that was signed")
	default:
		return true
	}
	return false
}

// readAudit decrypts the segments that hold records above AuditAfter. Segments
// of the time before a recipient was one stay closed to it, and are counted.
func (r *reader) readAudit(ctx context.Context, days []*auditIndex) error {
	before := ""
	for _, day := range days {
		for _, s := range day.Segments {
			if s.Through > r.opts.AuditAfter {
				if err := r.segment(ctx, day.Day, s, before); err != nil {
					return err
				}
			}
			before = s.Sum
		}
	}
	return nil
}

func (r *reader) segment(ctx context.Context, day string, of auditSegment, before string) error {
	path := segmentPath(day, of.First)
	data, err := r.tree.File(ctx, path)
	if errors.Is(err, mesh.ErrNotFound) || err == nil && digest(data) != of.Sum {
		return nil // a fault says so
	}
	if err != nil {
		return fmt.Errorf("backup: read: %w", err)
	}
	plain, err := open(data, r.ids)
	if _, no := errors.AsType[*age.NoIdentityMatchError](err); no {
		r.state.AuditUnread++
		return nil
	}
	if err != nil {
		r.faults.add(path, "does not open: %v", err)
		return nil
	}
	s, err := parseSegment(plain)
	switch {
	case err != nil:
		r.faults.add(path, "what is in it cannot be read")
	case s.Before != before || s.records[0].ID != of.First || s.records[len(s.records)-1].ID != of.Through:
		r.faults.add(path, "does not follow the one before it")
	default:
		for _, o := range s.records {
			if o.ID > r.opts.AuditAfter {
				r.state.Audit = append(r.state.Audit, o)
			}
		}
	}
	return nil
}
