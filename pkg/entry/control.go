package entry

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var (
	_ control.RoleHandler = (*Server)(nil)
	_ control.Restorer    = (*Server)(nil)
)

// Hello adds nothing: all that management must know of an entry is in its
// certificate. The server that it is for may not know what was relayed so far.
func (s *Server) Hello(*controlpb.Hello) { s.cores.untell() }

// ApplyConfig puts suffixes and the age of last answers in force, all or none.
func (s *Server) ApplyConfig(_ context.Context, c *controlpb.Config) error {
	suffixes := make([]mesh.ServerName, 0, len(c.GetSuffixes()))
	for _, x := range c.GetSuffixes() {
		n, err := mesh.ParseServerName(x)
		if err != nil {
			return fmt.Errorf("entry: apply suffix: %w", err)
		}
		suffixes = append(suffixes, n)
	}
	stale := time.Duration(c.GetStaleIfErrorNanos())
	if stale < 0 {
		return fmt.Errorf("entry: apply staleIfError %v: want 0 or more: %w", stale, mesh.ErrInvalid)
	}
	s.Settings.Apply(suffixes, stale, c.GetDrain())
	return nil
}

// Handle takes an order to drain: readiness goes down, so that the balancer
// sends nobody; who still comes is served. A later configuration decides anew.
func (s *Server) Handle(_ context.Context, m *controlpb.MgmtMessage, _ control.Send) error {
	if d := m.GetDrain(); d != nil {
		s.Settings.startDrain()
		s.Log.Info("drain ordered", "reason", d.GetReason())
	}
	return nil
}

// Report says how many connections are open, which cores answered, what was relayed
// through each, and how many names led nowhere.
func (s *Server) Report() *controlpb.Report {
	state := "ready"
	if err := s.Ready(context.Background()); err != nil {
		state = err.Error()
	}
	r := &controlpb.Report{State: state, Streams: s.open.Load(), Dials: s.cores.results(), Relayed: s.cores.relayed(), Counts: true, Policy: string(s.Policy.Verdict())}
	r.Misses, r.MissedNames = s.misses.take()
	return r
}

// Unsent takes back a report that may not have arrived. What was relayed is told
// anew with the next stream.
func (s *Server) Unsent(r *controlpb.Report) {
	s.cores.restore(r.GetDials())
	s.misses.restore(r.GetMisses(), r.GetMissedNames())
}
