package entry

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/relay"
)

const (
	// silence is how long a client may owe the acknowledgement of what it was
	// sent. Keepalive tests idle connections only: a peer that vanishes with
	// bytes under way would otherwise stay for a quarter of an hour.
	silence    = time.Minute
	sweepEvery = 15 * time.Second
)

// relayed are the connections that carry bytes.
type relayed struct {
	mu    sync.Mutex // guards conns
	conns map[*net.TCPConn]struct{}
}

func (r *relayed) add(c *net.TCPConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		r.conns = map[*net.TCPConn]struct{}{}
	}
	r.conns[c] = struct{}{}
}

func (r *relayed) remove(c *net.TCPConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

func (r *relayed) all() []*net.TCPConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*net.TCPConn, 0, len(r.conns))
	for c := range r.conns {
		out = append(out, c)
	}
	return out
}

// sweep resets connections whose client is gone, until ctx ends.
func (r *relayed) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, c := range r.all() {
			if gone(c) {
				relay.Abort(c, relay.CodePeerReset)
			}
		}
	}
}
