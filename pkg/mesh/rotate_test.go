package mesh

import (
	"math"
	"testing"
	"time"
)

func TestReplacedLabelsOverlapAndEnd(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	d := Device{Labels: []Label{{Label: "first"}}}
	d.RotateLabel(now, time.Hour)
	if len(d.Labels) != 2 || !d.Labels[0].NotAfter.Equal(now.Add(time.Hour)) || !d.Labels[1].NotAfter.IsZero() || !d.Labels[1].Since.Equal(now) {
		t.Fatalf("labels %+v", d.Labels)
	}
	if n := d.Names("a.example.net", now.Add(time.Hour)); len(n) != 1 || n[0] == "first.a.example.net" {
		t.Errorf("names after the overlap: %v", n)
	}
	d.RotateLabel(now.Add(time.Minute), 24*time.Hour)
	if !d.Labels[0].NotAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("a second rotation gives the first label until %v", d.Labels[0].NotAfter)
	}
	for range 10 {
		d.RotateLabel(now.Add(time.Minute), 24*time.Hour)
	}
	if len(d.Labels) != maxOverlapping {
		t.Errorf("%d labels after many rotations, want %d", len(d.Labels), maxOverlapping)
	}
	d.RotateLabel(now.Add(2*time.Minute), 0)
	if len(d.Labels) != 1 {
		t.Errorf("%d labels after a rotation without overlap, want 1", len(d.Labels))
	}
}

func TestReplacedPathsOverlap(t *testing.T) {
	now := time.Now()
	c := Cell{}
	c.RotatePaths(now, time.Hour)
	first := c.Paths[0]
	c.RotatePaths(now, time.Hour)
	if at := c.PathsAt(now); len(at) != 2 || at[0].WebSocket != first.WebSocket || at[1].WebSocket == first.WebSocket {
		t.Errorf("paths %+v", at)
	}
	if at := c.PathsAt(now.Add(time.Hour)); len(at) != 1 || at[0].WebSocket == first.WebSocket {
		t.Errorf("paths after the overlap %+v", at)
	}
}

func TestCountedSinceTheReset(t *testing.T) {
	d := Device{Reset: TrafficReset{Used: Traffic{Up: 10, Down: 20}}}
	if n := d.Counted(Traffic{Up: 15, Down: 120}).Bytes(); n != 105 {
		t.Errorf("counted %d, want 105", n)
	}
	// After a restore, totals may be of before the reset.
	if n := d.Counted(Traffic{Up: 1}).Bytes(); n != 0 {
		t.Errorf("counted %d, want 0", n)
	}
	if n := (Traffic{Up: math.MaxInt64, Down: 1}).Bytes(); n != math.MaxInt64 {
		t.Errorf("counted %d around the end", n)
	}
}

func TestSubscriptionURL(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sub     ServerName
		entries []string
		want    string
	}{
		{"the usual port is not named", "sub.example.net", []string{"192.0.2.1:443", "192.0.2.2:8443"}, "https://sub.example.net/s/abc"},
		{"another port is", "sub.example.net", []string{"[2001:db8::1]:8443"}, "https://sub.example.net:8443/s/abc"},
		{"without an entry nobody gets there", "sub.example.net", nil, ""},
		{"without a name there is no service", "", []string{"192.0.2.1:443"}, ""},
	} {
		c := Config{Subscription: SubscriptionSettings{Name: tt.sub}, EntryAddresses: tt.entries}
		if got := c.SubscriptionURL("abc"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
