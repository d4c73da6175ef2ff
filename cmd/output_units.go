package cmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// age is how long ago t was, or how far ahead it lies ("in 3d"), in its
// largest unit.
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d)
}

// span is d in its largest whole unit.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 2*day:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d < 3*365*day:
		return strconv.Itoa(int(d/day)) + "d"
	}
	return strconv.Itoa(int(d/(365*day))) + "y"
}

// at is t with its distance from now, for single objects.
func at(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	rel := age(t, now)
	if !strings.HasPrefix(rel, "in ") {
		rel += " ago"
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST") + " (" + rel + ")"
}

// size is a number of bytes in decimal units, as mesh.ParseSize reads it.
func size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	v, i := float64(n), 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + " " + units[i]
}

func count(n int) string { return strconv.Itoa(n) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// listOf prints a list of strings or of things that print themselves.
func listOf[T any](items []T) string {
	out := make([]string, len(items))
	for i, v := range items {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ", ")
}
