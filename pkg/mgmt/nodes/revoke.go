package nodes

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// distribute is one pass that puts the revocations of the store in force here,
// which ends the streams of whom they refuse, and has them sent to every node.
func (s *Service) distribute(ctx context.Context, _ bool) (time.Time, error) {
	// The revision first: records that come between are sent again, none is
	// believed sent that was not.
	rev := int64(s.view.revocations.Rev())
	all := s.view.revocations.All()
	old := s.revs.Load()
	if old != nil && sameKeys(old.records, all) {
		return time.Time{}, nil
	}
	next := &revset{rev: rev, records: all}
	if old != nil {
		next.rev = max(rev, old.rev+1)
	}
	err := s.Revocations.Apply(true, 0, next.rev, next.all())
	// Nodes are told even if this server could not write its file.
	s.revs.Store(next)
	for _, se := range s.hub.all() {
		nudge(se.wake)
	}
	if old != nil {
		s.Log.Info("revocations distributed", "revision", next.rev, "count", len(all), "nodes", len(s.hub.all()))
	}
	return time.Time{}, err
}

func sameKeys(a, b map[string]mesh.SignedRevocation) bool {
	return len(a) == len(b) && !slices.ContainsFunc(slices.Collect(maps.Keys(a)), func(id string) bool {
		_, ok := b[id]
		return !ok
	})
}
