package relay

import (
	"context"
	"net"
	"sync"
	"time"
)

// KeepAlive are the settings with which the kernel finds a quiet TCP peer dead within 60 s.
func KeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: probes}
}

const (
	// silence is how long a peer may owe the acknowledgement of what it was sent. Keepalive tests
	// idle connections only: a peer that vanishes with bytes under way would otherwise stay for a
	// quarter of an hour.
	silence    = time.Minute
	sweepEvery = 15 * time.Second
	probes     = 3 // in a row without an answer are a death, since one may be lost
)

// Vigil finds TCP peers that vanished with bytes under way, and resets their connections. The zero
// value watches nothing yet.
type Vigil struct {
	mu    sync.Mutex // guards conns
	conns map[*net.TCPConn]struct{}
}

// Add watches c until Remove.
func (v *Vigil) Add(c *net.TCPConn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conns == nil {
		v.conns = map[*net.TCPConn]struct{}{}
	}
	v.conns[c] = struct{}{}
}

// Remove ends what Add began.
func (v *Vigil) Remove(c *net.TCPConn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.conns, c)
}

func (v *Vigil) all() []*net.TCPConn {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]*net.TCPConn, 0, len(v.conns))
	for c := range v.conns {
		out = append(out, c)
	}
	return out
}

// Run looks at all connections every now and then, until ctx ends.
func (v *Vigil) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, c := range v.all() {
			if gone(c) {
				abort(c, CodePeerReset)
			}
		}
	}
}
