package mesh

import (
	"errors"
	"testing"
	"time"
)

func TestDurationsInText(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "24h": 24 * time.Hour, "7d": 168 * time.Hour, "0d": 0, "1h30m": 90 * time.Minute} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d != Duration(want) {
			t.Errorf("%s: %v, %v", text, d, err)
		}
		var again Duration
		if b, err := d.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != d {
			t.Errorf("%s came back as %v: %v", text, again, err)
		}
	}
	for _, text := range []string{"", "d", "7", "-1d", "1.5d", "7d2h", "99999d", "7 d", "+7d"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}
