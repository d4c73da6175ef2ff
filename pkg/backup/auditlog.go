package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"
)

// AuditSource hands out the audit records with ids above after ("": from the
// first that is kept), in the order of ids. after need not be one of a record.
type AuditSource func(after string) iter.Seq2[Object, error]

// maxSegment bounds what a segment holds in bytes; a record more may follow.
const maxSegment = 2 << 20

// lateness is how long after a record with a later id one may appear: servers
// have clocks of their own, which differ by ten minutes at most, and a change takes
// its time.
const lateness = 15 * time.Minute

// auditIndex is index/audit.yaml: the segments of the last day there are any of.
// At the end of a day it goes to audit/<day>/index.yaml, and the next names its
// digest. So the manifest vouches for every segment there ever was, and no
// commit writes more than the list of a day.
type auditIndex struct {
	Day      string         `json:"day"` // as in 2026-11-30, UTC
	Before   *auditDay      `json:"before,omitempty"`
	Segments []auditSegment `json:"segments"` // in the order of writing
	Through  string         `json:"through"`  // the last record in any
	// Recent are the records in them of the time before Through in which others
	// may still appear, sorted.
	Recent []string `json:"recent"`
}

type auditDay struct {
	Day   string `json:"day"`
	Index string `json:"index"` // SHA-256 of its index
}

type auditSegment struct {
	First   string `json:"first"` // record, and name of the file
	Through string `json:"through"`
	Sum     string `json:"sha256"` // of the file
}

func (a *auditIndex) encode() ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	return toYAML(v), nil
}

func parseAuditIndex(data []byte) (*auditIndex, error) {
	v, err := fromYAML(data)
	if err != nil {
		return nil, err
	}
	a := new(auditIndex)
	if err := json.Unmarshal(appendObject(nil, v), a); err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *auditIndex) check() error {
	switch {
	case !isDay(a.Day), a.Before != nil && (!isDay(a.Before.Day) || a.Before.Day >= a.Day || !isDigest(a.Before.Index)):
		return errors.New("want a day, and the one before it with its SHA-256")
	case len(a.Segments) == 0 || !validID(a.Through):
		return errors.New("want segments, and the last record")
	}
	first := make(map[string]bool)
	for i, s := range a.Segments {
		if !validID(s.First) || !validID(s.Through) || !isDigest(s.Sum) || s.First > s.Through || s.Through > a.Through || first[s.First] {
			return fmt.Errorf("segment %d: want the ids of two records and a SHA-256", i+1)
		}
		first[s.First] = true
	}
	if slices.ContainsFunc(a.Recent, func(id string) bool { return !validID(id) }) || !slices.IsSorted(a.Recent) {
		return errors.New("recent: want the ids of records, sorted")
	}
	return nil
}

func isDay(s string) bool {
	t, err := time.Parse(time.DateOnly, s)
	return err == nil && t.Format(time.DateOnly) == s
}

// last is the SHA-256 of the newest segment.
func (a *auditIndex) last() string { return a.Segments[len(a.Segments)-1].Sum }

// after is the id from which on the source may have records that are in no
// segment.
func (a *auditIndex) after() string { return earlier(a.Through, lateness) }

// earlier is an id of so long before another, or the other one if it names no
// time.
func earlier(id string, d time.Duration) string {
	t, ok := timeOf(id)
	if !ok {
		return id
	}
	return fmt.Sprintf("%016x", max(0, t.Add(-d).UnixMicro()))
}

// has says whether a record of the time after a.after() is in a segment.
func (a *auditIndex) has(id string) bool {
	_, found := slices.BinarySearch(a.Recent, id)
	return found
}

// add puts a segment into the index.
func (a *auditIndex) add(records []Object, sum string) {
	first, through := records[0].ID, records[len(records)-1].ID
	a.Segments = append(a.Segments, auditSegment{First: first, Through: through, Sum: sum})
	a.Through = max(a.Through, through)
	for _, r := range records {
		a.Recent = append(a.Recent, r.ID)
	}
	slices.Sort(a.Recent)
	a.Recent = slices.DeleteFunc(a.Recent, func(id string) bool { return id <= a.after() })
}

func segmentPath(day, id string) string { return dirAudit + "/" + day + "/" + id + extClosed }
func dayIndexPath(day string) string    { return dirAudit + "/" + day + "/index.yaml" }

// segment is a run of audit records, as it lies in a file: a header and the
// records, a line of JSON each.
type segment struct {
	segmentHeader
	records []Object
}

type segmentHeader struct {
	Format int    `json:"format"`
	Before string `json:"before,omitzero"` // SHA-256 of the segment before it
	Count  int    `json:"count"`
}

func (s *segment) encode() ([]byte, error) {
	s.Format, s.Count = Format, len(s.records)
	head, err := json.Marshal(s.segmentHeader)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(append(head, '\n'))
	for _, r := range s.records {
		line, err := Canonical(r.JSON)
		if err != nil {
			return nil, err
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes(), nil
}

func parseSegment(data []byte) (*segment, error) {
	lines := bytes.Split(data, []byte("\n"))
	if len(lines) < 2 || len(lines[len(lines)-1]) != 0 {
		return nil, errors.New("it ends in the middle of a line")
	}
	s := new(segment)
	if err := json.Unmarshal(lines[0], &s.segmentHeader); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	if s.Format != Format || s.Before != "" && !isDigest(s.Before) {
		return nil, errors.New("line 1: want a format this program knows, and the SHA-256 of the segment before")
	}
	last := ""
	for i, line := range lines[1 : len(lines)-1] {
		id, err := recordID(line)
		if err != nil || id <= last {
			return nil, fmt.Errorf("line %d: want a record later than the one before", i+2)
		}
		s.records = append(s.records, Object{Folder: FolderAudit, ID: id, JSON: line})
		last = id
	}
	if len(s.records) == 0 || len(s.records) != s.Count {
		return nil, fmt.Errorf("it holds %d records, and says %d", len(s.records), s.Count)
	}
	return s, nil
}

func recordID(data []byte) (string, error) {
	m, err := parseJSON(data)
	if err != nil {
		return "", err
	}
	id, _ := m["id"].(string)
	if !validID(id) {
		return "", errors.New("want an id")
	}
	return id, nil
}

// timeOf is the time in a record's id: 16 hexadecimal digits of microseconds.
func timeOf(id string) (time.Time, bool) {
	if len(id) < 16 {
		return time.Time{}, false
	}
	us, err := strconv.ParseInt(id[:16], 16, 64)
	return time.UnixMicro(us).UTC(), err == nil && us >= 0 && us < 1<<56
}

// dayOf is the day that a record's id names, or else the one of now.
func dayOf(id string, now time.Time) string {
	if t, ok := timeOf(id); ok {
		now = t
	}
	return now.Format(time.DateOnly)
}
