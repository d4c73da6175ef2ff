package ca

import (
	"crypto"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// SignEpoch has the root say that its mesh is in that epoch. Servers and nodes
// follow a higher epoch for no less, and refuse a lower one ever after. It
// returns ErrInvalid for an epoch below 1.
func (r *Root) SignEpoch(epoch int64, now time.Time) (mesh.SignedEpoch, error) {
	if epoch < 1 {
		return mesh.SignedEpoch{}, fmt.Errorf("ca: sign epoch %d: want 1 or more: %w", epoch, mesh.ErrInvalid)
	}
	m, err := meshOf(r.cert)
	if err != nil {
		return mesh.SignedEpoch{}, err
	}
	payload, err := json.Marshal(mesh.Epoch{Mesh: m, Epoch: epoch, At: now.UTC().Truncate(time.Second)})
	if err != nil {
		return mesh.SignedEpoch{}, fmt.Errorf("ca: sign epoch: %w", err)
	}
	sig, err := r.key.Sign(rand.Reader, mesh.EpochDigest(payload), crypto.SHA256)
	if err != nil {
		return mesh.SignedEpoch{}, fmt.Errorf("ca: sign epoch: %w", err)
	}
	return mesh.SignedEpoch{Payload: payload, Signature: sig, Signer: r.cert.Raw}, nil
}
