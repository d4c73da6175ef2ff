package audit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxFaults bounds how many faults are named.
const maxFaults = 50

// Keep is how long records are kept at least: for an age, or until there are so
// many that are newer. Links are kept for longer.
type Keep struct {
	Age    time.Duration
	Number int
	Links  time.Duration
}

// What a check is told and says.
type (
	Anchor = mesh.AuditAnchor
	Report = mesh.AuditReport
	Fault  = mesh.AuditFault
)

// Checker compares records with the links that cover them. It is given the links
// first, then the records in the order of their ids, and reports in the end.
type Checker struct {
	links  []mesh.AuditSegment
	loose  map[string]bool // links whose predecessor is not the one before them
	report Report

	next    int // link that the next record may belong to
	have    records
	count   int    // records of that link
	last    string // record
	seen    bool   // a link had records
	trimmed *mesh.AuditSegment
}

// NewChecker checks the links, which are in order, among themselves. Anchors are
// links that must be among them.
func NewChecker(links []mesh.AuditSegment, anchors ...Anchor) *Checker {
	c := &Checker{links: links, loose: map[string]bool{}, have: newRecords(), report: Report{Links: len(links)}}
	if n := len(links); n > 0 {
		c.report.First, c.report.Last, c.report.Sum = links[0].ID, links[n-1].ID, links[n-1].Sum
	}
	var before mesh.AuditSegment
	for i, l := range links {
		c.link(i, before, l)
		before = l
	}
	for _, a := range anchors {
		c.anchor(a)
	}
	return c
}

func (c *Checker) link(i int, before, l mesh.AuditSegment) {
	n, ok := numberOf(l.ID)
	first := i == 0 && n != 1 // those before it are no longer kept
	switch was, _ := numberOf(before.ID); {
	case !ok:
		c.fault(Fault{Link: l.ID, Problem: "its number is none"})
	case !first && n != was+1:
		c.loose[l.ID] = true
		c.fault(Fault{Link: l.ID, Problem: fmt.Sprintf("it follows number %d: links between them are missing", was)})
		return
	}
	if l.Count < 1 || l.First > l.Through || l.First <= before.Through {
		c.fault(Fault{Link: l.ID, Problem: "it does not cover what comes after the link before"})
	}
	if !first && Sum(before.Sum, l) != l.Sum {
		c.fault(Fault{Link: l.ID, Problem: "it, or the link before, is not as it was made"})
	}
}

func (c *Checker) anchor(a Anchor) {
	for _, l := range c.links {
		if l.ID == a.Link {
			if l.Sum != a.Sum {
				c.fault(Fault{Link: l.ID, Problem: "it is not the one that is known from elsewhere"})
			}
			return
		}
	}
	c.fault(Fault{Link: a.Link, Problem: "it is known from elsewhere, and is not here"})
}

// Add compares the next record.
func (c *Checker) Add(r Record) {
	if r.ID <= c.last {
		c.fault(Fault{Record: r.ID, Problem: "it comes twice, or out of order"})
		return
	}
	c.last = r.ID
	for c.next < len(c.links) && r.ID > c.links[c.next].Through {
		c.close()
	}
	if c.next == len(c.links) {
		c.report.Open++
		return
	}
	switch l := c.links[c.next]; {
	case r.ID >= l.First:
		if err := c.have.add(r); err != nil {
			c.fault(Fault{Record: r.ID, Problem: "it cannot be read"})
		}
		c.count++
		if c.report.From == "" {
			c.report.From = r.ID
		}
		c.report.Through = r.ID
	case c.next == 0 && l.ID != Number(1):
		c.report.Earlier++
	case !c.loose[l.ID]:
		c.fault(Fault{Record: r.ID, Problem: "no link covers it: it was added later"})
	}
}

// close ends the link whose records are all there.
func (c *Checker) close() {
	l := c.links[c.next]
	switch sum := c.have.sum(); {
	case c.count == 0 && !c.seen:
		c.report.Trimmed++
		c.trimmed = &l
	case c.count == 0:
		c.fault(Fault{Link: l.ID, Problem: fmt.Sprintf("its %d records are missing", l.Count)})
	case c.count != l.Count:
		c.fault(Fault{Link: l.ID, Problem: fmt.Sprintf("it covers %d records, and there are %d", l.Count, c.count)})
	case sum != l.Records:
		c.fault(Fault{Link: l.ID, Problem: "a record that it covers is not as it was written"})
	}
	c.seen = c.seen || c.count > 0
	c.report.Records += c.count
	c.next, c.count, c.have = c.next+1, 0, newRecords()
}

// End returns the report when all records were added. Where keep is not nil, the
// oldest records may be gone, but not before their time; where it is nil, as far
// as they like.
func (c *Checker) End(keep *Keep, now time.Time) Report {
	for c.next < len(c.links) {
		c.close()
	}
	if keep != nil {
		c.early(*keep, now)
	}
	return c.report
}

// early finds what is gone before its time.
func (c *Checker) early(keep Keep, now time.Time) {
	if c.trimmed != nil && c.report.Records+c.report.Open < keep.Number {
		if at, ok := timeOf(c.trimmed.Through); !ok || now.Before(at.Add(keep.Age)) {
			c.fault(Fault{Link: c.trimmed.ID, Problem: "its records, and those before, are gone before their time"})
		}
	}
	if len(c.links) > 0 && c.links[0].ID != Number(1) && now.Before(c.links[0].Sealed.Add(keep.Links)) {
		c.fault(Fault{Link: c.links[0].ID, Problem: "the links before it are gone before their time"})
	}
}

func (c *Checker) fault(f Fault) {
	if c.report.Wrong++; len(c.report.Faults) < maxFaults {
		c.report.Faults = append(c.report.Faults, f)
	}
}

// timeOf is the time in a record's id: 16 hexadecimal digits of microseconds.
func timeOf(id string) (time.Time, bool) {
	if len(id) < 16 {
		return time.Time{}, false
	}
	us, err := strconv.ParseInt(id[:16], 16, 64)
	return time.UnixMicro(us), err == nil
}
