package identity

import (
	"crypto/sha256"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Epoch is the highest mesh epoch seen; 0 before any.
func (r *Revocations) Epoch() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.epoch
}

// EpochProof is the root's word for Epoch. It is zero where none was needed.
func (r *Revocations) EpochProof() mesh.SignedEpoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.proof
}

// CheckEpoch says whether an epoch that a management server named may be
// followed, and whether it is one that this node has not seen. It returns
// ErrConflict for an epoch lower than any seen, since that server's state is
// older than what the node knows, and ErrDenied for a higher one without the
// root's word: whoever can write the state could lock the node out of the mesh.
func (r *Revocations) CheckEpoch(epoch int64, proof mesh.SignedEpoch) (rises bool, err error) {
	held := r.Epoch()
	if epoch < held {
		return false, mesh.WithHint(
			fmt.Errorf("identity: mesh epoch %d is older than %d, which this node has seen: %w", epoch, held, mesh.ErrConflict),
			"the management server runs from an old copy of its state; restore it as the runbook says, which raises the epoch")
	}
	rises = epoch > held
	if proof.IsZero() {
		if rises && epoch > 1 {
			return false, mesh.WithHint(
				fmt.Errorf("identity: mesh epoch %d comes without the root's word for it: %w", epoch, mesh.ErrDenied),
				"somebody may have changed the state of management without the root passphrase: look at `meshctl mgmt status` on its servers")
		}
		return rises, nil
	}
	said, err := VerifyEpoch(r.roots, r.mesh, proof)
	if err == nil && said.Epoch != epoch {
		err = fmt.Errorf("identity: the root's word is for epoch %d, and the server names %d: %w", said.Epoch, epoch, mesh.ErrDenied)
	}
	return rises && err == nil, err
}

// Follow remembers an epoch that CheckEpoch allows. Revisions of an earlier one
// mean nothing any more.
func (r *Revocations) Follow(epoch int64, proof mesh.SignedEpoch) error {
	rises, err := r.CheckEpoch(epoch, proof)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch < r.state.epoch || !rises && (proof.IsZero() || proof.Equal(r.state.proof)) {
		return nil
	}
	next := r.state
	next.epoch, next.proof = epoch, proof
	if rises {
		next.revision = 0
	}
	if err := r.save(next); err != nil {
		return err
	}
	r.state = next
	return nil
}

// Handed is the last epoch in which the records were handed over.
func (r *Revocations) Handed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.handed
}

// SetHanded remembers that management has all records, in the present epoch.
func (r *Revocations) SetHanded(epoch int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != r.state.epoch || epoch == r.state.handed {
		return nil
	}
	next := r.state
	next.handed = epoch
	if err := r.save(next); err != nil {
		return err
	}
	r.state = next
	return nil
}

// Signed returns every record held, by SHA-256 of its payload.
func (r *Revocations) Signed() map[[sha256.Size]byte]mesh.SignedRevocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[[sha256.Size]byte]mesh.SignedRevocation, len(r.state.records))
	for key, h := range r.state.records {
		out[key] = h.signed
	}
	return out
}
