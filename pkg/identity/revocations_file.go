package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// revocationFile is the file's content.
type revocationFile struct {
	Mesh     mesh.ID        `json:"mesh"`
	Epoch    int64          `json:"epoch"`
	Revision int64          `json:"revision"`
	Records  []signedRecord `json:"records"`
	// Of the versions since there are restores.
	EpochProof mesh.SignedEpoch `json:"epochProof,omitzero"`
	Handed     int64            `json:"handedEpoch,omitzero"`
}

// signedRecord is mesh.SignedRevocation without the decoded copy, which nothing
// would protect.
type signedRecord struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
	Signer    []byte `json:"signer"`
}

func (r *Revocations) load() error {
	b, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("identity: read revocations: %w", err)
	}
	var f revocationFile
	if json.Unmarshal(b, &f) != nil {
		return r.damaged("it is not readable")
	}
	if f.Mesh != r.mesh {
		return r.damaged("it is of another mesh")
	}
	for _, s := range f.Records {
		signed := mesh.SignedRevocation{Payload: s.Payload, Signature: s.Signature, Signer: s.Signer}
		rec, err := VerifyRevocation(r.roots, signed)
		if err != nil {
			return r.damaged(err.Error())
		}
		h := heldRevocation{rec, signed}
		r.state.records[h.key()] = h
	}
	r.state.epoch, r.state.revision, r.state.handed = f.Epoch, f.Revision, f.Handed
	// The epoch stands without its proof, which is for others.
	if e, err := VerifyEpoch(r.roots, r.mesh, f.EpochProof); err == nil && e.Epoch == f.Epoch {
		r.state.proof = f.EpochProof
	}
	return nil
}

func (r *Revocations) damaged(why string) error {
	return mesh.WithHint(
		fmt.Errorf("identity: read revocations from %s: %s: %w", r.path, why, mesh.ErrInvalid),
		"remove the file to have the records sent again; until a management server answers, revoked peers are not known here")
}

func (r *Revocations) save(s revocationState) error {
	if r.path == "" {
		return nil
	}
	f := revocationFile{Mesh: r.mesh, Epoch: s.epoch, Revision: s.revision, EpochProof: s.proof, Handed: s.handed}
	for _, x := range s.sorted() {
		f.Records = append(f.Records, signedRecord{x.Payload, x.Signature, x.Signer})
	}
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("identity: write revocations: %w", err)
	}
	if err := writeFile(r.path, b, r.step); err != nil {
		return fmt.Errorf("identity: write revocations: %w: %w", err, mesh.ErrUnavailable)
	}
	return nil
}
