package texts

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes writes an amount of traffic: "1.5 GB".
func (t *Texts) Bytes(n int64) string {
	v, unit := float64(n), "b"
	for _, next := range []string{"kb", "mb", "gb", "tb", "pb"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, next
	}
	digits := 0
	if v < 99.95 && v != math.Trunc(v) {
		digits = 1
	}
	return t.Plain("unit."+unit, "amount", t.decimal(v, digits))
}

func (t *Texts) decimal(v float64, digits int) string {
	s := strings.TrimSuffix(strconv.FormatFloat(v, 'f', digits, 64), ".0")
	return strings.Replace(s, ".", t.Plain("unit.point"), 1)
}

// Day writes a date, in UTC.
func (t *Texts) Day(at time.Time) string { return at.UTC().Format(t.Plain("unit.day-form")) }

// Moment writes a date and a time, in UTC, which it says.
func (t *Texts) Moment(at time.Time) string { return at.UTC().Format(t.Plain("unit.moment-form")) }

// Span writes how long something takes, in its largest unit: "3 days".
func (t *Texts) Span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return t.Plain("unit.seconds", "n", int(d/time.Second))
	case d < time.Hour:
		return t.Plain("unit.minutes", "n", int(d/time.Minute))
	case d < 48*time.Hour:
		return t.Plain("unit.hours", "n", int(d/time.Hour))
	}
	return t.Plain("unit.days", "n", int((d+time.Hour)/(24*time.Hour))) // what was just set to 30 days is not 29
}

// Ago writes how long before now something was.
func (t *Texts) Ago(at, now time.Time) string {
	if d := now.Sub(at); d >= time.Minute {
		return t.Plain("unit.ago", "span", t.Span(d))
	}
	return t.Plain("unit.just-now")
}

// Left writes how long after now something will be.
func (t *Texts) Left(at, now time.Time) string {
	if d := at.Sub(now); d > 0 {
		return t.Plain("unit.left", "span", t.Span(d))
	}
	return t.Plain("unit.over")
}

// Bar draws which part of something is used up, in ten characters.
func Bar(used, all int64) string {
	if all <= 0 {
		return ""
	}
	full := int(math.Round(10 * min(1, max(0, float64(used)/float64(all)))))
	if full == 0 && used > 0 {
		full = 1
	}
	return strings.Repeat("▰", full) + strings.Repeat("▱", 10-full)
}
