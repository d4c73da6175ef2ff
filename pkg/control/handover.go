package control

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A mesh whose state comes from a backup does not know whom it has refused since
// the backup was made. Its nodes do, and no server can make that up:
//
//	welcome, hand over ──▶ which records the node keeps
//	   those lacking   ──▶ the records, signed as they were
//	   handed over     ──▶ remembered: not asked for again in this epoch

const (
	heldPart = 10_000 // SHA-256 sums in one message: 340 kB
	// recordPart is how many bytes of records go into one message, about.
	recordPart = 256 << 10
)

// follow remembers an epoch that the server proved. What the node has of an
// earlier one is asked for again, so it forgets those revisions first: a stop in
// between costs no more than being sent all once more.
func (s *session) follow(w *controlpb.Welcome) error {
	proof := SignedEpochOf(w.GetEpochProof())
	rises, err := s.home.Revocations.CheckEpoch(w.GetMeshEpoch(), proof)
	if err != nil {
		return err
	}
	if rises {
		s.running.config = 0
		if err := s.home.State.forgetRevision(); err != nil {
			return err
		}
		if f, ok := s.home.Role.(EpochFollower); ok {
			if err := f.NewEpoch(); err != nil {
				return err
			}
		}
	}
	return s.home.Revocations.Follow(w.GetMeshEpoch(), proof)
}

// handOver says which revocations the node keeps.
func (s *session) handOver() error {
	keys := slices.Collect(maps.Keys(s.home.Revocations.Signed()))
	for {
		part := &controlpb.HandOver{}
		n := min(len(keys), heldPart)
		for _, k := range keys[:n] {
			part.Held = append(part.Held, k[:])
		}
		keys = keys[n:]
		part.More = len(keys) > 0
		if err := s.sendHandOver(part); err != nil || !part.More {
			return err
		}
	}
}

// handBack sends the records that the server lacks.
func (s *session) handBack(m *controlpb.HandBack) error {
	held := s.home.Revocations.Signed()
	part, size := &controlpb.HandOver{}, 0
	for _, sum := range m.GetLacking() {
		if len(sum) != sha256.Size {
			return fmt.Errorf("the server asked for a revocation by %d bytes: %w", len(sum), mesh.ErrInvalid)
		}
		r, ok := held[[sha256.Size]byte(sum)]
		if !ok {
			continue // it has ended meanwhile
		}
		if size >= recordPart {
			part.More = true
			if err := s.sendHandOver(part); err != nil {
				return err
			}
			part, size = &controlpb.HandOver{}, 0
		}
		part.Records = append(part.Records, &controlpb.SignedRevocation{Payload: r.Payload, Signature: r.Signature, Signer: r.Signer})
		size += len(r.Payload) + len(r.Signature) + len(r.Signer)
	}
	return s.sendHandOver(part)
}

func (s *session) sendHandOver(m *controlpb.HandOver) error {
	return s.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_HandOver{HandOver: m}})
}

// handedOver remembers that the mesh has what the node keeps.
func (s *session) handedOver(m *controlpb.HandedOver) error {
	s.home.Log.Info("revocations handed over", "count", s.home.Revocations.Len())
	return s.home.Revocations.SetHanded(m.GetEpoch())
}

// SignedEpochOf and SignedEpochMessage translate between the wire and mesh. Nil
// is no statement.
func SignedEpochOf(m *controlpb.SignedEpoch) mesh.SignedEpoch {
	return mesh.SignedEpoch{Payload: m.GetPayload(), Signature: m.GetSignature(), Signer: m.GetSigner()}
}

// SignedEpochMessage is nil for no statement.
func SignedEpochMessage(s mesh.SignedEpoch) *controlpb.SignedEpoch {
	if s.IsZero() {
		return nil
	}
	return &controlpb.SignedEpoch{Payload: s.Payload, Signature: s.Signature, Signer: s.Signer}
}
