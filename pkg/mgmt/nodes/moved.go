package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Servers tell each other of their streams by the nodes' statuses: the one that
// has a node's latest stream writes that it has it, and who had an earlier one
// lets it go. Of two nodes with one identity the first to be written stays.

// elsewhere says why a node that said hello here may not come, for what it was
// last seen as on another server: a second node of the identity, or an earlier
// start of this one.
func (s *Service) elsewhere(st mesh.NodeStatus, h *controlpb.Hello) error {
	if !st.Connected || st.Server == s.Server || st.Instance == "" || time.Since(st.LastSeen) > s.times.Lost {
		return nil
	}
	return follows(helloOf(st), h, fmt.Sprintf("%v, at server %s", st.Observed, st.Server))
}

// letGo is one pass that ends the streams of nodes which have a later one on
// another server. Theirs here may look alive for a while, when the network
// dropped it without a word.
func (s *Service) letGo(context.Context, bool) (time.Time, error) {
	for _, se := range s.hub.all() {
		st, _ := s.view.status.Get(se.node)
		if st.Instance == se.hello.GetInstance() && st.Boot > se.hello.GetBoot() && s.elsewhere(st, se.hello) != nil {
			se.end(fmt.Errorf("nodes: connect: a later stream of this node is at server %s: %w", st.Server, mesh.ErrConflict))
		}
	}
	return time.Time{}, nil
}

// duplicate tells people of a second node with one identity.
func (s *Service) duplicate(se *session, err error) {
	s.tell(mesh.Event{Type: mesh.EventDuplicateNode, Severity: mesh.Critical, Object: se.node,
		Cause: fmt.Sprintf("a second node of this identity came from %v and was refused: %v", se.observed.Addr(), err), Advice: mesh.Hint(err)})
}

// yield ends streams of this server whose nodes other servers have, as the store
// has it.
func (s *Service) yield(lost []mesh.NodeStatus) {
	for _, st := range lost {
		se := s.hub.get(st.Node)
		if se == nil {
			continue
		}
		err := s.elsewhere(st, se.hello)
		if err == nil {
			continue // a later stream by now
		}
		if st.Instance != se.hello.GetInstance() {
			s.duplicate(se, err)
		}
		se.end(err)
	}
}
