package nodes

import (
	"cmp"
	"time"
)

// Settings are the times the service lives by. Zero fields have the defaults
// named there.
type Settings struct {
	HelloWait time.Duration // for the first message; 5 s
	Ping      time.Duration // between pings; 15 s. A node silent for two and a half is gone.
	Seen      time.Duration // between writes of an unchanged node's last-seen; 20 s
	Lost      time.Duration // without a lease and unseen for that long, a core is lost; 60 s
	Lease     time.Duration // of what says to other servers which nodes are here; 10 s
	Probe     time.Duration // between dial-backs that succeed; 5 min
	Retry     time.Duration // first wait after a dial-back that failed; doubles up to Probe; 5 s
	ProbeTime time.Duration // for one dial-back, from the nonce to the answer; 5 s
	Pass      time.Duration // between full passes of every loop; 5 min
	Farewell  time.Duration // for goodbyes to be sent when the service stops; 1 s
	Renew     time.Duration // over which nodes renew whose issuer was removed; 30 s
	Meter     time.Duration // between writes of what cores have counted; 1 min
	Trial     time.Duration // for one node to say that it runs a new configuration; 30 s
	// Unreachable is how long entries must not reach a cell before that is told; 60 s.
	Unreachable time.Duration
	// Quiet is how long what an entry found about a cell counts when it tries no
	// more; 10 min.
	Quiet time.Duration
}

func (s Settings) withDefaults() Settings {
	return Settings{
		HelloWait: cmp.Or(s.HelloWait, 5*time.Second),
		Ping:      cmp.Or(s.Ping, 15*time.Second),
		Seen:      cmp.Or(s.Seen, 20*time.Second),
		Lost:      cmp.Or(s.Lost, time.Minute),
		Lease:     cmp.Or(s.Lease, 10*time.Second),
		Probe:     cmp.Or(s.Probe, 5*time.Minute),
		Retry:     cmp.Or(s.Retry, 5*time.Second),
		ProbeTime: cmp.Or(s.ProbeTime, 5*time.Second),
		Pass:      cmp.Or(s.Pass, 5*time.Minute),
		Farewell:  cmp.Or(s.Farewell, time.Second),
		Renew:     cmp.Or(s.Renew, 30*time.Second),
		Meter:     cmp.Or(s.Meter, time.Minute),
		Trial:     cmp.Or(s.Trial, 30*time.Second),

		Unreachable: cmp.Or(s.Unreachable, time.Minute),
		Quiet:       cmp.Or(s.Quiet, 10*time.Minute),
	}
}

// Clocks that differ more than clockWarn are told of, more than clockRefuse are
// refused: certificates and expiries would be judged wrongly.
const (
	clockWarn   = 5 * time.Second
	clockRefuse = 10 * time.Minute
)
