package control

import (
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestRenewalBeginsAtTwoThirds(t *testing.T) {
	n := identitytest.New(t).Node(t, mesh.RoleCore, identitytest.Life(30*time.Hour))
	now := time.Now()
	near := func(got, want time.Duration) bool { return (got - want).Abs() < time.Minute }
	if d := untilRenewal(n, now, 0); !near(d, 20*time.Hour) {
		t.Errorf("earliest %v", d)
	}
	if d := untilRenewal(n, now, 1); !near(d, 23*time.Hour) {
		t.Errorf("latest %v", d)
	}
	if d := untilRenewal(n, now.Add(25*time.Hour), 0.5); d != 0 {
		t.Errorf("overdue %v", d)
	}
}

func TestRenewalRetries(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name     string
		left     time.Duration
		failures int
		min, max time.Duration
	}{
		{"the first comes after a minute", 720 * time.Hour, 1, time.Minute, 90 * time.Second},
		{"they grow", 720 * time.Hour, 4, 8 * time.Minute, 12 * time.Minute},
		{"to an hour", 720 * time.Hour, 40, time.Hour, 90 * time.Minute},
		{"the shortest lives get several tries", 20 * time.Second, 3, 5 * time.Second, 8 * time.Second},
		{"after the end at most one a minute", -time.Hour, 50, time.Minute, 90 * time.Second},
		{"after the end, with no server there, every few seconds", -time.Hour, 50, 5 * time.Second, 8 * time.Second},
	}
	for _, tt := range tests {
		for _, spread := range []float64{0, 0.99} {
			if d := retryRenewal(now.Add(tt.left), now, tt.failures, !strings.Contains(tt.name, "no server"), spread); d < tt.min || d > tt.max {
				t.Errorf("%s: %v, want %v to %v", tt.name, d, tt.min, tt.max)
			}
		}
	}
}
