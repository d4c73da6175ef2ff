// Package audit is the chain over the audit records: links that name the records
// they cover by one hash, and the link before them by another. Who changes,
// removes, adds or reorders a record, or a link, breaks it. It knows no store:
// the same code checks what the servers hold and what lies in a backup.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Record is an audit record as it is stored.
type Record struct {
	ID   string
	JSON []byte
}

// Number is the id of the n-th link, from 1 on.
func Number(n uint64) string { return fmt.Sprintf("%016x", n) }

// numberOf is the inverse of Number.
func numberOf(id string) (uint64, bool) {
	n, err := strconv.ParseUint(id, 16, 64)
	return n, err == nil && n > 0 && Number(n) == id
}

// Link returns the link that follows last (zero: the first) and covers records,
// of which there is at least one, in the order of their ids.
func Link(last mesh.AuditSegment, records []Record, now time.Time) (mesh.AuditSegment, error) {
	n := uint64(1)
	if last.ID != "" {
		before, ok := numberOf(last.ID)
		if !ok {
			return mesh.AuditSegment{}, fmt.Errorf("audit: link after %q: want a number: %w", mesh.Quotable(last.ID), mesh.ErrInvalid)
		}
		n = before + 1
	}
	if len(records) == 0 || records[0].ID <= last.Through {
		return mesh.AuditSegment{}, fmt.Errorf("audit: link %d: want records after %q: %w", n, last.Through, mesh.ErrInvalid)
	}
	l := mesh.AuditSegment{
		ID: Number(n), First: records[0].ID, Through: records[len(records)-1].ID, Count: len(records), Sealed: now.UTC(),
	}
	h := newRecords()
	for _, r := range records {
		if err := h.add(r); err != nil {
			return mesh.AuditSegment{}, err
		}
	}
	l.Records = h.sum()
	l.Sum = Sum(last.Sum, l)
	return l, nil
}

// Sum is the hash of a link, which follows one with that hash ("": none). All
// that the link says is in it.
func Sum(before string, l mesh.AuditSegment) string {
	h := sha256.New()
	fmt.Fprintf(h, "meshctl audit link 1\n%s\n%s\n%s\n%s\n%d\n%s\n%s\n",
		before, l.ID, l.First, l.Through, l.Count, l.Records, l.Sealed.UTC().Format(time.RFC3339Nano))
	return hex.EncodeToString(h.Sum(nil))
}

// records is the hash over records in the making: each in its canonical form,
// which a backup holds too, on a line of its own, behind its id.
type records struct{ h hash.Hash }

func newRecords() records { return records{sha256.New()} }

func (r records) add(rec Record) error {
	text, err := backup.Canonical(rec.JSON)
	if err != nil {
		return fmt.Errorf("audit: record %s: %w", mesh.Quotable(rec.ID), err)
	}
	fmt.Fprintf(r.h, "%s\n%s\n", rec.ID, text) // a hash takes everything
	return nil
}

func (r records) sum() string { return hex.EncodeToString(r.h.Sum(nil)) }
