package nodes

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxSerial is the length of the longest serial, in decimal digits.
const maxSerial = 50

// receive takes one message. An error ends the stream.
func (s *Service) receive(ctx context.Context, se *session, m *controlpb.NodeMessage) error {
	if err := s.permitted(se, m); err != nil {
		s.misbehaved(se.peer, err)
		return err
	}
	switch b := m.GetBody().(type) {
	case *controlpb.NodeMessage_Ping:
		return se.answer(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Pong{Pong: b.Ping}})
	case *controlpb.NodeMessage_Ack:
		return s.acknowledged(se, b.Ack)
	case *controlpb.NodeMessage_HandOver:
		return s.handedOver(ctx, se, b.HandOver)
	case *controlpb.NodeMessage_Report:
		s.reported(se, b.Report)
	case *controlpb.NodeMessage_ProbeReady:
		select {
		case se.ready <- b.ProbeReady.GetNonce():
		default: // an answer nobody waits for
		}
	case *controlpb.NodeMessage_CellRequest:
		s.cellRequested(ctx, se, b.CellRequest)
	case *controlpb.NodeMessage_Goodbye:
		return errParted
	}
	return nil
}

// permitted says whether the node may send m, now and at this size.
func (s *Service) permitted(se *session, m *controlpb.NodeMessage) error {
	switch size := proto.Size(m); {
	case !se.rate.Allow():
		return fmt.Errorf("nodes: %s sends more than %v messages a second: %w", se.node, se.rate.Limit(), mesh.ErrUnavailable)
	case size > MaxMessage:
		return fmt.Errorf("nodes: %s sent %d bytes at once, at most %d: %w", se.node, size, MaxMessage, mesh.ErrInvalid)
	case m.GetHandOver() == nil && !se.volume.AllowN(time.Now(), size): // what was asked for is bounded by that
		return fmt.Errorf("nodes: %s sends more than %v bytes a second: %w", se.node, se.volume.Limit(), mesh.ErrUnavailable)
	case m.GetBody() == nil:
		return nil // of a later version
	case !control.AllowedFrom(se.peer.Role, m):
		return fmt.Errorf("nodes: %s sent a message that its role may not send (%s): %w", se.node, kindOf(m), mesh.ErrDenied)
	}
	return nil
}

// kindOf names the message's kind as the protocol does.
func kindOf(m *controlpb.NodeMessage) string {
	r := m.ProtoReflect()
	if f := r.WhichOneof(r.Descriptor().Oneofs().ByName("body")); f != nil {
		return string(f.Name())
	}
	return "unknown"
}

func (s *Service) acknowledged(se *session, a *controlpb.Ack) error {
	again, changed, err := se.ack(a)
	if err == nil && again && !se.resend.Allow() {
		err = fmt.Errorf("nodes: %s asks to be sent everything anew too often: %w", se.node, mesh.ErrUnavailable)
	}
	if err != nil {
		s.misbehaved(se.peer, err)
		return err
	}
	// A canary's refusal is told of with what becomes of it.
	if a.GetError() != "" && !(a.GetKind() == controlpb.Ack_KIND_CONFIG && s.tries(se.peer.Identity, a.GetRevision())) {
		s.tell(mesh.Event{Type: mesh.EventConfigRefused, Severity: mesh.Warning, Object: se.node,
			Cause:  fmt.Sprintf("revision %d is not in force there: %s", a.GetRevision(), cut(a.GetError(), 500)),
			Advice: "the node goes on with what ran before; mend what it names, on its machine or in the configuration"})
	}
	// What is not written now is with the next full pass.
	if changed && se.writes.Allow() {
		s.hub.changed(se.node)
		s.wakes.flush.nudge()
	}
	return nil
}

// tries says whether the node was sent that configuration to try it out.
func (s *Service) tries(id mesh.Identity, wire int64) bool {
	for _, r := range s.view.rollouts.All() {
		if r.Canary == id.Node() && r.Trial.Revision == groupRevision(wire) {
			return true
		}
	}
	return false
}

// reported keeps what a report says in memory: counters are no writes.
func (s *Service) reported(se *session, r *controlpb.Report) {
	if se.report(r) && se.writes.Allow() {
		s.hub.changed(se.node)
		s.wakes.flush.nudge()
	}
	if se.peer.Role == mesh.RoleCore {
		s.metered(se, r)
		return
	}
	s.dialled(se, r)
	s.relayed(se, r)
	s.missed(se, r)
	for _, d := range r.GetDials() {
		if d.GetFailed() > 0 && d.GetSucceeded() == 0 {
			s.suspect(mesh.CoreID(d.GetCore()))
		}
	}
}

// suspect has a core dialled that entries cannot reach.
func (s *Service) suspect(id mesh.CoreID) {
	if se := s.hub.get(string(mesh.RoleCore) + "/" + string(id)); se != nil {
		nudge(se.poke)
	}
}
