package mesh

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// DefaultCollect is how long a mesh that was restored waits for the revocations
// its nodes keep, before it serves without those of nodes that stayed away.
const DefaultCollect = 2 * time.Minute

// Epoch is what the root says of a mesh: which time line of its state is the
// one that counts. It is 1 from the founding on and rises with each restore.
type Epoch struct {
	Mesh  ID        `json:"mesh"`
	Epoch int64     `json:"epoch"`
	At    time.Time `json:"at"`
}

// SignedEpoch is an Epoch as servers and nodes keep it. Its zero value says
// nothing: a mesh that was founded before there were any has none.
type SignedEpoch struct {
	Payload   []byte `json:"payload,omitzero"`   // the signed bytes: the Epoch as JSON
	Signature []byte `json:"signature,omitzero"` // ECDSA, ASN.1, over EpochDigest
	Signer    []byte `json:"signer,omitzero"`    // DER of the root that signed
}

// IsZero says that there is no statement.
func (s SignedEpoch) IsZero() bool { return len(s.Payload) == 0 }

// Equal says whether both are the same, byte for byte.
func (s SignedEpoch) Equal(o SignedEpoch) bool {
	return bytes.Equal(s.Payload, o.Payload) && bytes.Equal(s.Signature, o.Signature) && bytes.Equal(s.Signer, o.Signer)
}

// EpochContext precedes the payload when it is signed, so that no other
// signature by the same key can be taken for an epoch.
const EpochContext = "meshctl mesh epoch v1\x00"

// EpochDigest is what is signed: SHA-256 of context and payload.
func EpochDigest(payload []byte) []byte {
	h := sha256.New()
	h.Write([]byte(EpochContext))
	h.Write(payload)
	return h.Sum(nil)
}

// Restored says that the state comes from a backup.
type Restored struct {
	At     time.Time `json:"at"`              // when it was put back; zero: never
	Backup time.Time `json:"backup,omitzero"` // when the backup was made
	Epoch  int64     `json:"epoch"`           // that began with it
	// Collect is how long the mesh waits, from its first start on, for the
	// revocations that nodes keep. Zero: DefaultCollect.
	Collect Duration `json:"collect,omitzero"`
	// Collected is when it stopped waiting. Zero: nothing is served yet.
	Collected time.Time `json:"collected,omitzero"`
}

// IsZero says that the state never came from a backup.
func (r Restored) IsZero() bool { return r.At.IsZero() }

// Equal says whether both say the same.
func (r Restored) Equal(o Restored) bool {
	return r.At.Equal(o.At) && r.Backup.Equal(o.Backup) && r.Epoch == o.Epoch && r.Collect == o.Collect && r.Collected.Equal(o.Collected)
}

// Collecting says whether the mesh still waits for what its nodes know.
func (r Restored) Collecting() bool { return !r.At.IsZero() && r.Collected.IsZero() }

// Wait is how long it waits.
func (r Restored) Wait() time.Duration {
	if r.Collect > 0 {
		return time.Duration(r.Collect)
	}
	return DefaultCollect
}
