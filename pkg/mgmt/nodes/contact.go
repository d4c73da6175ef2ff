package nodes

import (
	"context"
	"time"
)

// watchContact sends the nodes to other servers when this one has been cut off
// from them for a while: their cores would be taken for lost. It does so once
// each time, so that nodes which find no better server stay here.
func (s *Service) watchContact(ctx context.Context) {
	limit := s.times.Lost / 3
	sent := false
	for ctx.Err() == nil {
		pause(ctx, limit/4)
		switch away := s.alive.Away(); {
		case away == 0:
			sent = false
		case sent || away < limit || len(s.config().MgmtAddresses) < 2:
		default:
			sent = true
			s.disperse(away)
		}
	}
}

func (s *Service) disperse(away time.Duration) {
	all := s.hub.all()
	s.Log.Warn("nodes sent to other servers", "reason", "no contact with the other servers", "took", away.Round(time.Millisecond), "count", len(all))
	for _, se := range all {
		se.leave("this server has lost contact with the others")
	}
}
