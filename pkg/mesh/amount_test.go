package mesh

import (
	"errors"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "unlimited": 0, "Unlimited": 0, "4096": 4096, "1B": 1, "1k": 1000, "100GB": 100e9, "100 GB": 100e9,
		"1.5GiB": 3 << 29, "64MiB": 64 << 20, "2tb": 2e12, "1PiB": 1 << 50,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GB", "-1GB", "1XB", "1iB", "1GiBs", "9999PB", "1e3", "1,5GB", "NaN", "Inf", "1.2.3GB", "99999PiB"} {
		if got, err := ParseSize(in); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseSize(%q) = %d, %v; want a refusal", in, got, err)
		}
	}
}

func TestParseSpan(t *testing.T) {
	const day = 24 * time.Hour
	for in, want := range map[string]time.Duration{
		"30d": 30 * day, "1w": 7 * day, "1w2d": 9 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute,
	} {
		if got, err := ParseSpan(in); err != nil || got != want {
			t.Errorf("ParseSpan(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0s", "-1h", "-1d", "30", "d", "1d1", "soon", "1y", "NaNd", "Infd", "999999w"} {
		if got, err := ParseSpan(in); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseSpan(%q) = %v, %v; want a refusal", in, got, err)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 500, time.UTC)
	for in, want := range map[string]string{
		"30d": "2026-12-30T12:00:00Z", "2027-01-31": "2027-01-31T00:00:00Z", "2027-01-31T12:00:00+02:00": "2027-01-31T10:00:00Z",
	} {
		if got, err := ParseExpiry(in, now); err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("ParseExpiry(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	if got, err := ParseExpiry("never", now); err != nil || !got.IsZero() {
		t.Errorf("never is %v, %v", got, err)
	}
	for _, in := range []string{"", "2026-11-30", "2020-01-01", "31.01.2027", "2027-02-30", "-1d", "tomorrow"} {
		if got, err := ParseExpiry(in, now); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseExpiry(%q) = %v, %v; want a refusal", in, got, err)
		}
	}
	if got, err := ParseSince("2h", now); err != nil || got.Format(time.RFC3339) != "2026-11-30T10:00:00Z" {
		t.Errorf("ParseSince is %v, %v", got, err)
	}
}
