package cmd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "unlimited": 0, "Unlimited": 0, "4096": 4096, "1B": 1, "1k": 1000, "100GB": 100e9, "100 GB": 100e9,
		"1.5GiB": 3 << 29, "64MiB": 64 << 20, "2tb": 2e12, "1PiB": 1 << 50,
	} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GB", "-1GB", "1XB", "1iB", "1GiBs", "9999PB", "1e3", "1,5GB", "NaN", "Inf", "1.2.3GB", "99999PiB"} {
		if got, err := parseSize(in); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("parseSize(%q) = %d, %v; want a refusal", in, got, err)
		}
	}
}

func TestParseSpan(t *testing.T) {
	const day = 24 * time.Hour
	for in, want := range map[string]time.Duration{
		"30d": 30 * day, "1w": 7 * day, "1w2d": 9 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute,
	} {
		if got, err := parseSpan(in); err != nil || got != want {
			t.Errorf("parseSpan(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0s", "-1h", "-1d", "30", "d", "1d1", "soon", "1y", "NaNd", "Infd", "999999w"} {
		if got, err := parseSpan(in); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("parseSpan(%q) = %v, %v; want a refusal", in, got, err)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 500, time.UTC)
	for in, want := range map[string]string{
		"30d": "2026-12-30T12:00:00Z", "2027-01-31": "2027-01-31T00:00:00Z", "2027-01-31T12:00:00+02:00": "2027-01-31T10:00:00Z",
	} {
		if got, err := parseExpiry(in, now); err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("parseExpiry(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	if got, err := parseExpiry("never", now); err != nil || !got.IsZero() {
		t.Errorf("never is %v, %v", got, err)
	}
	for _, in := range []string{"", "2026-11-30", "2020-01-01", "31.01.2027", "2027-02-30", "-1d", "tomorrow"} {
		if got, err := parseExpiry(in, now); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("parseExpiry(%q) = %v, %v; want a refusal", in, got, err)
		}
	}
	if got, err := parseSince("2h", now); err != nil || got.Format(time.RFC3339) != "2026-11-30T10:00:00Z" {
		t.Errorf("parseSince is %v, %v", got, err)
	}
}

func TestAgesAndSizesReadWell(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 119 * time.Minute: "119m", 47 * time.Hour: "47h", 90 * 24 * time.Hour: "90d", -time.Hour: "in 60m",
	} {
		if got := age(now.Add(-d), now); got != want {
			t.Errorf("age of %v is %q, want %q", d, got, want)
		}
	}
	if got := at(now.Add(-time.Hour), now); got != "2026-11-30 11:00:00 UTC (60m ago)" {
		t.Errorf("at is %q", got)
	}
	if age(time.Time{}, now) != "" || at(time.Time{}, now) != "" {
		t.Error("no time is shown as one")
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1500: "1.5 kB", 100e9: "100 GB", 2e15: "2 PB"} {
		got := size(n)
		if got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
		if back, err := parseSize(got); err != nil || back != n {
			t.Errorf("parseSize(%q) = %d, %v; want %d", got, back, err, n)
		}
	}
}

func TestPatchOf(t *testing.T) {
	got, err := patchOf([]string{"certLife.node=720h", "certLife.admin=1h", "entryAddresses=a:1, b:2", "allowedAddresses=", `mgmtAddresses=["c:3"]`, "renewGrace=null", "x=a=b"})
	want := `{"allowedAddresses":[],"certLife":{"admin":"1h","node":"720h"},"entryAddresses":["a:1","b:2"],"mgmtAddresses":["c:3"],"renewGrace":null,"x":"a=b"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for _, bad := range []string{"", "=x", "x", "x=[1", "x={"} {
		if _, err := patchOf([]string{bad}); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestReadPatchTakesYAML(t *testing.T) {
	got, err := readPatch(t.Context(), strings.NewReader("certLife:\n  node: 720h\nrenewGrace: null\n"), "-", nil)
	if want := `{"certLife":{"node":"720h"},"renewGrace":null}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := readPatch(t.Context(), strings.NewReader(strings.Repeat("#", maxPatch+1)), "-", nil); err == nil {
		t.Error("a patch without end passed")
	}
}
