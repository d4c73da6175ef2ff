package mesh

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseSize reads "100GB", "1.5 GiB", "4096" or "unlimited" (0). Decimal and
// binary units are told apart as in SI and IEC.
func ParseSize(s string) (int64, error) {
	bad := func(why string) (int64, error) {
		return 0, fmt.Errorf("size %q: %s; want a number with a unit, such as 100GB or 64MiB, or unlimited: %w",
			Quotable(s), why, ErrInvalid)
	}
	t := strings.TrimSpace(s)
	if strings.EqualFold(t, "unlimited") {
		return 0, nil
	}
	end := strings.LastIndexAny(t, "0123456789.") + 1
	unit, ok := unitBytes(strings.TrimSpace(t[end:]))
	n, err := strconv.ParseFloat(t[:end], 64)
	switch {
	case end == 0 || err != nil || strings.Trim(t[:end], "0123456789.") != "":
		return bad("no number")
	case !ok:
		return bad("unknown unit")
	case n*unit >= math.MaxInt64:
		return bad("too large")
	}
	return int64(n * unit), nil
}

func unitBytes(u string) (float64, bool) {
	u = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(u, "B"), "b"))
	if u == "" {
		return 1, true
	}
	base := 1000.0
	if rest, ok := strings.CutSuffix(u, "i"); ok {
		u, base = rest, 1024
	}
	i := strings.Index("kmgtp", u)
	if i < 0 || len(u) != 1 {
		return 0, false
	}
	return math.Pow(base, float64(i+1)), true
}

// ParseSpan reads a positive duration; beside Go's units it knows d and w.
func ParseSpan(s string) (time.Duration, error) {
	bad := fmt.Errorf("duration %q: want a positive number with a unit, such as 30d, 12h or 90m: %w", Quotable(s), ErrInvalid)
	days := 0.0
	rest := strings.TrimSpace(s)
	for _, u := range []struct {
		name string
		days float64
	}{{"w", 7}, {"d", 1}} {
		head, tail, ok := strings.Cut(rest, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(head, 64)
		if err != nil {
			return 0, bad
		}
		days, rest = days+n*u.days, tail
	}
	d := time.Duration(0)
	if rest != "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, bad
		}
	}
	total := days*24*float64(time.Hour) + float64(d)
	if total <= 0 || total > math.MaxInt64 || math.IsNaN(total) {
		return 0, bad
	}
	return time.Duration(total), nil
}

// ParseExpiry reads when service ends: a duration from now, a date (00:00 UTC
// of that day), a time, or "never" (zero). It refuses the past.
func ParseExpiry(s string, now time.Time) (time.Time, error) {
	t := strings.TrimSpace(s)
	if t == "never" {
		return time.Time{}, nil
	}
	when, err := parseTime(t, now, 1)
	if err != nil {
		return time.Time{}, fmt.Errorf("time %q: want a duration (30d), a date (2027-01-31), a time (2027-01-31T12:00:00Z) or never: %w",
			Quotable(s), ErrInvalid)
	}
	if !when.After(now) {
		return time.Time{}, fmt.Errorf("time %q lies in the past: %w", Quotable(s), ErrInvalid)
	}
	return when, nil
}

// ParseSince reads a moment in the past: a duration before now, a date or a time.
func ParseSince(s string, now time.Time) (time.Time, error) {
	when, err := parseTime(strings.TrimSpace(s), now, -1)
	if err != nil {
		return time.Time{}, fmt.Errorf("time %q: want a duration (2h), a date (2027-01-31) or a time (2027-01-31T12:00:00Z): %w",
			Quotable(s), ErrInvalid)
	}
	return when, nil
}

func parseTime(s string, now time.Time, sign time.Duration) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	d, err := ParseSpan(s)
	if err != nil {
		return time.Time{}, err
	}
	return now.Add(sign * d).UTC().Truncate(time.Second), nil
}
