package nodes

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// maxHeld bounds what one node may offer: as many as nodes keep.
	maxHeld = 50_000
	// askedAtOnce is how many records a node is asked for at once, 1 KiB each.
	askedAtOnce = 2000
	// maxParts bounds the messages of one node: far more than it needs.
	maxParts = 5000
)

// digest names a record: SHA-256 of what was signed.
type digest = [sha256.Size]byte

// handover is what one node is asked for after a restore, on one stream:
//
//	offered: which records it keeps ──▶ lacking: those the store has not
//	   ▲ asked for some ──▶ they come, are verified and stored ─┐
//	   └────────────────────────────────────────────────────────┘ until none is left
type handover struct {
	epoch   int64
	offered map[digest]bool // that the node keeps; nil once all were named
	lacking []digest        // still to be asked for
	asked   map[digest]bool // that are to come now
	arrived []mesh.SignedRevocation
	parts   int // messages that have come
	back    int // records that the mesh did not have
}

// handover is what a node is to be asked for, nil if nothing: the mesh never was
// restored, or has all of that node already.
func (s *Service) handover(h *controlpb.Hello) *handover {
	epoch := s.Epoch()
	if s.config().Restored.IsZero() || h.GetHandedEpoch() >= epoch {
		return nil
	}
	return &handover{epoch: epoch, offered: map[digest]bool{}}
}

// handedOver takes one part of what a node hands over. An error ends the stream;
// the node begins anew with the next.
func (s *Service) handedOver(ctx context.Context, se *session, m *controlpb.HandOver) error {
	h := se.hand
	if h == nil {
		err := fmt.Errorf("nodes: %s hands over what it was not asked for: %w", se.node, mesh.ErrDenied)
		s.misbehaved(se.peer, err)
		return err
	}
	if err := h.add(m); err != nil {
		err = fmt.Errorf("nodes: %s hands over revocations: %w", se.node, err)
		s.misbehaved(se.peer, err)
		return err
	}
	if err := s.takeBack(ctx, se, h); err != nil || m.GetMore() {
		return err
	}
	if h.offered != nil {
		h.lacking, h.offered = s.lacking(h.offered), nil
	}
	if ask := h.next(); ask != nil {
		return se.answer(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_HandBack{HandBack: ask}})
	}
	return s.heard(se)
}

// add takes one message. Its size is bounded, the number of them here.
func (h *handover) add(m *controlpb.HandOver) error {
	if h.parts++; h.parts > maxParts {
		return fmt.Errorf("more than %d messages: %w", maxParts, mesh.ErrInvalid)
	}
	if h.offered != nil {
		return h.offer(m)
	}
	return h.take(m)
}

// offer notes which records the node keeps.
func (h *handover) offer(m *controlpb.HandOver) error {
	if len(m.GetRecords()) > 0 {
		return fmt.Errorf("records before any was asked for: %w", mesh.ErrInvalid)
	}
	for _, b := range m.GetHeld() {
		if len(b) != sha256.Size {
			return fmt.Errorf("a digest of %d bytes: %w", len(b), mesh.ErrInvalid)
		}
		h.offered[digest(b)] = true
	}
	if len(h.offered) > maxHeld {
		return fmt.Errorf("more than %d records: %w", maxHeld, mesh.ErrInvalid)
	}
	return nil
}

// take keeps records that were asked for.
func (h *handover) take(m *controlpb.HandOver) error {
	for _, r := range m.GetRecords() {
		key := digest(sha256.Sum256(r.GetPayload()))
		if !h.asked[key] {
			return fmt.Errorf("a record that was not asked for: %w", mesh.ErrInvalid)
		}
		delete(h.asked, key)
		h.arrived = append(h.arrived, mesh.SignedRevocation{Payload: r.GetPayload(), Signature: r.GetSignature(), Signer: r.GetSigner()})
	}
	return nil
}

// next asks for some of what is lacking, nil when nothing is. What was asked for
// and did not come has ended at the node.
func (h *handover) next() *controlpb.HandBack {
	n := min(len(h.lacking), askedAtOnce)
	if n == 0 {
		return nil
	}
	ask := &controlpb.HandBack{}
	h.asked = map[digest]bool{}
	for _, k := range h.lacking[:n] {
		h.asked[k] = true
		ask.Lacking = append(ask.Lacking, k[:])
	}
	h.lacking = h.lacking[n:]
	return ask
}

// lacking are the records offered that this server does not know.
func (s *Service) lacking(offered map[digest]bool) []digest {
	known := map[digest]bool{}
	for _, r := range s.view.revocations.All() {
		known[sha256.Sum256(r.Payload)] = true
	}
	var out []digest
	for k := range offered {
		if !known[k] {
			out = append(out, k)
		}
	}
	return out
}

// heard notes that all the node keeps is known, here and to the node.
func (s *Service) heard(se *session) error {
	se.mu.Lock()
	se.handed = se.hand.epoch
	se.mu.Unlock()
	s.Log.Info("revocations taken back", "node", se.node, "count", se.hand.back)
	s.hub.changed(se.node)
	s.wakes.flush.nudge()
	done := &controlpb.HandedOver{Epoch: se.hand.epoch}
	se.hand = nil
	return se.answer(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_HandedOver{HandedOver: done}})
}
