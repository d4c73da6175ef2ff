package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// proven is the epoch of the mesh by the root's word.
type proven struct {
	number int64
	proof  mesh.SignedEpoch
}

// Epoch is the epoch of the mesh, as far as its root has signed it.
func (s *Service) Epoch() int64 {
	if e := s.epoch.Load(); e != nil {
		return e.number
	}
	return 1
}

// followEpoch is one pass that takes the epoch from the configuration. A number
// that the root did not sign changes nothing but that people are told: whoever
// has a server's disk can write it.
func (s *Service) followEpoch(context.Context, bool) (time.Time, error) {
	c, old := s.config(), s.epoch.Load()
	number, err := identity.EpochOf(s.Node.Roots(), s.Mesh, c)
	if old != nil && number < old.number {
		number, err = old.number, fmt.Errorf("nodes: the state says epoch %d, after %d: %w", c.Epoch, old.number, mesh.ErrConflict)
	}
	if old == nil || number > old.number {
		s.epoch.Store(&proven{number, c.EpochProof})
	}
	if err != nil {
		s.tell(mesh.Event{Type: mesh.EventEpochForged, Severity: mesh.Critical, Object: "config/mesh", Cause: err.Error(),
			Advice: "somebody has changed the state without the root passphrase: find out who can (meshctl admin audit), and treat the disk of a server as stolen (runbook: a server is lost)"})
	}
	return time.Time{}, nil
}

// later refuses a node that proves a later epoch: the mesh was restored, and
// this server is what was before.
func (s *Service) later(p identity.Peer, h *controlpb.Hello) error {
	proof := control.SignedEpochOf(h.GetEpochProof())
	if h.GetMeshEpoch() <= s.Epoch() || proof.IsZero() {
		return nil // the node decides by itself
	}
	said, err := identity.VerifyEpoch(s.Node.Roots(), s.Mesh, proof)
	if err != nil {
		s.misbehaved(p, err)
		return err
	}
	if said.Epoch <= s.Epoch() {
		return nil
	}
	s.Log.Error("a node is of a later epoch", "node", p.Node(), "epoch", said.Epoch)
	if s.Superseded != nil {
		s.Superseded(proof)
	}
	return fmt.Errorf("nodes: connect: this server is of mesh epoch %d, and the mesh is in %d: %w", s.Epoch(), said.Epoch, mesh.ErrConflict)
}
