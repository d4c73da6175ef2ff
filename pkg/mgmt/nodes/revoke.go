package nodes

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// revset is every revocation as of one revision. It never changes.
type revset struct {
	rev     int64
	records map[string]mesh.SignedRevocation
	bad     map[string]bool // records that no CA of the mesh signed
}

// distribute is one pass that has the revocations of the store sent to every
// node and puts them in force here, which ends the streams they refuse.
func (s *Service) distribute(ctx context.Context, _ bool) (time.Time, error) {
	// The revision first: what comes in between is sent as of an older one, and
	// nothing is believed sent that was not.
	rev := int64(s.view.revocations.Rev())
	old := s.revs.Load()
	next := s.nextRevset(old, rev, s.view.revocations.All())
	if next != old {
		s.revs.Store(next)
		for _, se := range s.hub.all() {
			nudge(se.wake)
		}
	}
	if s.Revocations.Revision() == next.rev && old != nil {
		return time.Time{}, nil
	}
	return time.Time{}, s.apply(next, old)
}

// apply also brings back what could not be written the last time.
func (s *Service) apply(r, old *revset) error {
	records, base := maps.Clone(r.records), s.Revocations.Revision()
	extends := old != nil && old.rev == base
	if extends { // each record costs the check of its signature
		maps.DeleteFunc(records, func(id string, _ mesh.SignedRevocation) bool { _, has := old.records[id]; return has })
	}
	err := s.Revocations.Apply(!extends, base, r.rev, slices.Collect(maps.Values(records)))
	if err == nil && old != nil {
		s.Log.Info("revocations applied", "revision", r.rev, "count", len(r.records))
	}
	return err
}

// nextRevset is old when it has the same records. A record that does not verify
// is left out: it must not keep the others from being applied.
func (s *Service) nextRevset(old *revset, rev int64, all map[string]mesh.SignedRevocation) *revset {
	next := &revset{rev: rev, records: map[string]mesh.SignedRevocation{}, bad: map[string]bool{}}
	if old == nil {
		old = &revset{}
	} else {
		next.rev = max(rev, old.rev+1)
	}
	same := old.records != nil
	for id, r := range all {
		switch _, known := old.records[id]; {
		case known:
			next.records[id] = r
		case old.bad[id]:
			next.bad[id] = true
		default:
			same = false
			if _, err := identity.VerifyRevocation(s.Node.Roots(), r); err != nil {
				s.Log.Error("revocation ignored", "object", id, "err", err)
				next.bad[id] = true
				continue
			}
			next.records[id] = r
		}
	}
	if same && len(next.records) == len(old.records) {
		return old
	}
	return next
}
