package control

import (
	"testing"
	"time"
)

func TestBackoffGrowsToItsBoundAndStartsOver(t *testing.T) {
	var b Backoff
	most := func() (d time.Duration) {
		for range 200 {
			c := b // the same number of tries each time
			d = max(d, c.Next())
		}
		return d
	}
	for _, limit := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		if got := most(); got > limit+time.Millisecond || got < limit/2 {
			t.Errorf("delays up to %v, want nearly %v", got, limit)
		}
		b.Next()
	}
	for range 100 {
		if d := b.Next(); d > time.Minute+time.Millisecond {
			t.Fatalf("delay %v", d)
		}
	}
	b.Reset()
	if got := most(); got > 501*time.Millisecond {
		t.Errorf("after a reset up to %v", got)
	}
}

// H-01: after a long outage nodes stay spread over the whole interval, because
// the randomness comes after the bound.
func TestNodesStaySpreadAfterALongOutage(t *testing.T) {
	const nodes, bins = 60000, 600
	var count [bins + 1]int
	for range nodes {
		var b Backoff
		for range 20 {
			b.Next()
		}
		count[b.Next()*bins/time.Minute]++
	}
	for i, n := range count[:bins] {
		if n > 3*nodes/bins {
			t.Errorf("%d nodes in one tenth of a second (%d), mean %d", n, i, nodes/bins)
		}
	}
}
