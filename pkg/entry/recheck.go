package entry

import (
	"context"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// recheckFor is how long after a client wanted a core that is silent it is asked
// again without one.
const recheckFor = time.Hour

// recheck asks cores that fell silent and that no client asks, until ctx ends, so
// that management hears when they can be reached again: clients may have given up,
// or be served by other cores.
func (s *Server) recheck(ctx context.Context) {
	t := time.NewTicker(s.Recheck)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, id := range s.cores.overdue(s.Node.Identity().Mesh, s.Recheck, time.Now()) {
			s.recheckOne(ctx, id)
		}
	}
}

func (s *Server) recheckOne(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, s.DialTimeout)
	defer cancel()
	c, err := s.dial(ctx, id)
	switch {
	case err == nil:
		if s.cores.heard(id) {
			s.Log.Info("node answered again", "node", s.cores.node(id))
		}
		if err := c.Close(); err != nil {
			s.Log.Debug("connection not closed", "node", s.cores.node(id), "err", err)
		}
	case context.Cause(ctx) != context.Canceled: // otherwise the entry is ending
		s.cores.silent(id, err)
	}
}

// overdue are the cores that were silent when they were last asked, at least
// every ago, and that a client wanted of late.
func (c *cores) overdue(m mesh.ID, every time.Duration, now time.Time) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for id, k := range c.known {
		if k.failures > 0 && now.Sub(k.tried) >= every && now.Sub(k.wanted) < recheckFor &&
			k.target.Kind != mesh.HopMgmt && usable(m, k.target) == nil {
			out = append(out, id)
		}
	}
	return out
}
