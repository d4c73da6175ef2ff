package cmd

import (
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

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
		if back, err := mesh.ParseSize(got); err != nil || back != n {
			t.Errorf("mesh.ParseSize(%q) = %d, %v; want %d", got, back, err, n)
		}
	}
}

func TestPatchOf(t *testing.T) {
	got, err := patchOf([]string{"certLife.node=720h", "certLife.admin=1h", "entryAddresses=a:1, b:2", "allowedAddresses=", `mgmtAddresses=["c:3"]`, "renewGrace=null", "x=a=b",
		"bot.noSecrets=true", "bot.noGuests=false", "bot.deviceLimit=3", "subscription.title=2026", "subscription.updateInterval=12h"})
	want := `{"allowedAddresses":[],"bot":{"deviceLimit":3,"noGuests":false,"noSecrets":true},"certLife":{"admin":"1h","node":"720h"},"entryAddresses":["a:1","b:2"],` +
		`"mgmtAddresses":["c:3"],"renewGrace":null,"subscription":{"title":"2026","updateInterval":"12h"},"x":"a=b"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for _, bad := range []string{"", "=x", "x", "x=[1", "x={", "bot.noSecrets=1x", "bot.deviceLimit=many"} {
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
