package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"
)

// AuditSource hands out the audit records with ids above after ("": from the
// first that is kept), oldest first.
type AuditSource func(after string) iter.Seq2[Object, error]

// maxSegment bounds what a segment holds in bytes; a record more may follow.
const maxSegment = 2 << 20

// auditIndex is index/audit.yaml: the segments of the last day there are any of.
// At the end of a day it goes to audit/<day>/index.yaml, and the next names its
// digest. So the manifest vouches for every segment there ever was, and no
// commit writes more than the list of a day.
type auditIndex struct {
	Day      string            `json:"day"` // as in 2026-11-30, UTC
	Before   *auditDay         `json:"before,omitempty"`
	Segments map[string]string `json:"segments"` // first record to the SHA-256 of the file
	Through  string            `json:"through"`  // the last record in them
}

type auditDay struct {
	Day   string `json:"day"`
	Index string `json:"index"` // SHA-256 of its index
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
	switch {
	case !isDay(a.Day), a.Before != nil && (!isDay(a.Before.Day) || a.Before.Day >= a.Day || !isDigest(a.Before.Index)):
		return nil, errors.New("want a day, and the one before it with its SHA-256")
	case len(a.Segments) == 0 || !validID(a.Through):
		return nil, errors.New("want segments, and the last record")
	}
	for id, sum := range a.Segments {
		if !validID(id) || !isDigest(sum) || id > a.Through {
			return nil, fmt.Errorf("segment %.40q: want the id of a record and a SHA-256", id)
		}
	}
	return a, nil
}

func isDay(s string) bool {
	t, err := time.Parse(time.DateOnly, s)
	return err == nil && t.Format(time.DateOnly) == s
}

// last is the id and digest of the newest segment.
func (a *auditIndex) last() (id, sum string) {
	id = slices.Max(slices.Collect(maps.Keys(a.Segments)))
	return id, a.Segments[id]
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

// dayOf is the day that a record's id names (16 hexadecimal digits of
// microseconds), or the fallback.
func dayOf(id, fallback string) string {
	if len(id) >= 16 {
		if us, err := strconv.ParseInt(id[:16], 16, 64); err == nil && us < 1<<56 {
			return time.UnixMicro(us).UTC().Format(time.DateOnly)
		}
	}
	return fallback
}
