package mesh

import (
	"testing"
	"time"
)

func TestCoreNext(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const limit = 30 * time.Second
	fresh, old := now.Add(-time.Second), now.Add(-time.Minute)
	tests := []struct {
		name string
		core Core
		live Liveness
		want CoreState
	}{
		{"a core that joined and was not dialled yet stays joined", Core{State: CoreJoined}, Liveness{Connected: true, LastSeen: fresh}, CoreJoined},
		{"an answered dial-back makes it ready", Core{State: CoreJoined}, Liveness{Connected: true, LastSeen: fresh, Dialled: true}, CoreReady},
		{"a core that cannot be dialled stays joined", Core{State: CoreJoined}, Liveness{Connected: true, LastSeen: fresh, Failure: "refused"}, CoreJoined},
		{"a ready core whose new stream fails the dial-back falls back", Core{State: CoreReady}, Liveness{Connected: true, LastSeen: fresh, Failure: "refused"}, CoreJoined},
		{"a lease that ended alone does not lose a core", Core{State: CoreReady}, Liveness{LastSeen: fresh}, CoreReady},
		{"an old last-seen alone does not lose a core", Core{State: CoreReady}, Liveness{Connected: true, LastSeen: old, Dialled: true}, CoreReady},
		{"both together do", Core{State: CoreReady}, Liveness{LastSeen: old}, CoreLost},
		{"a core that never was ready is not lost", Core{State: CoreJoined}, Liveness{LastSeen: old}, CoreJoined},
		{"a lost core that phones home waits for its dial-back", Core{State: CoreLost}, Liveness{Connected: true, LastSeen: fresh}, CoreLost},
		{"draining is the operator's word", Core{State: CoreReady, Drain: true}, Liveness{Connected: true, LastSeen: fresh, Dialled: true}, CoreDraining},
		{"revoked is final", Core{State: CoreReady, Revoked: true}, Liveness{Connected: true, LastSeen: fresh, Dialled: true}, CoreRevoked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, why := tt.core.Next(tt.live, now, limit)
			if got != tt.want {
				t.Errorf("got %s (%s), want %s", got, why, tt.want)
			}
			if got == CoreJoined && tt.live.Failure != "" && why != tt.live.Failure {
				t.Errorf("the reason is %q, want %q", why, tt.live.Failure)
			}
		})
	}
}
