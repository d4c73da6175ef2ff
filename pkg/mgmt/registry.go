package mgmt

import (
	"sync"

	"github.com/meshctl/meshctl/pkg/identity"
)

// registry knows the open connections, so that those of a revoked peer can be
// closed.
type registry struct {
	mu    sync.Mutex // guards conns
	conns map[*knownConn]struct{}
}

func newRegistry() *registry { return &registry{conns: make(map[*knownConn]struct{})} }

func (r *registry) add(c *knownConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
}

func (r *registry) remove(c *knownConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// sweep closes the connections of peers that check refuses, and says how many.
func (r *registry) sweep(check func(identity.Peer) error) int {
	var out []*knownConn
	r.mu.Lock()
	for c := range r.conns {
		if c.caller.peer.Leaf != nil && check(c.caller.peer) != nil {
			out = append(out, c)
		}
	}
	r.mu.Unlock()
	for _, c := range out {
		c.cut()
	}
	return len(out)
}
