package mgmt

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"fmt"

	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// MinBootstrapSecret is the shortest bootstrap secret, in bytes.
const MinBootstrapSecret = 32

// Labels of what is derived from the bootstrap secret. Each direction has its
// own, so that no proof can be sent back to whoever gave it.
const (
	proofExporter = "EXPORTER-meshctl-bootstrap-v1"
	proofAsk      = "meshctl bootstrap ask v1"
	proofAnswer   = "meshctl bootstrap answer v1"
	gossipLabel   = "meshctl bootstrap gossip v1"
)

// prover proves and checks the bootstrap secret on one TLS connection. A proof
// is of that connection alone: who stands in the middle of two has two.
type prover struct {
	secret mesh.Secret
	value  []byte // exported from the connection
}

// newProver returns ErrDenied without a secret, which proves nothing.
func newProver(secret mesh.Secret, cs *tls.ConnectionState) (prover, error) {
	if len(secret.Reveal()) < MinBootstrapSecret || cs == nil {
		return prover{}, fmt.Errorf("mgmt: no bootstrap secret admits anybody here: %w", mesh.ErrDenied)
	}
	value, err := cs.ExportKeyingMaterial(proofExporter, nil, sha256.Size)
	if err != nil {
		return prover{}, fmt.Errorf("mgmt: prove bootstrap secret: %w: %w", err, mesh.ErrDenied)
	}
	return prover{secret, value}, nil
}

func (p prover) proof(label string) []byte { return keyed(p.secret, label, p.value) }

// check returns ErrDenied unless the other side has the secret.
func (p prover) check(label string, proof []byte) error {
	if !hmac.Equal(p.proof(label), proof) {
		return errForeignSecret
	}
	return nil
}

// errForeignSecret: the other server was given another secret, or is no server
// of this mesh at all.
var errForeignSecret = mesh.WithHint(fmt.Errorf("mgmt: the bootstrap secret there is not the same as here: %w", mesh.ErrDenied),
	"give all servers that found the mesh the same bootstrap-secret-file")

func keyed(secret mesh.Secret, label string, data []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret.Reveal()))
	h.Write([]byte(label))
	h.Write([]byte{0})
	h.Write(data)
	return h.Sum(nil)
}

// bootstrapGossipKey encrypts gossip until the mesh has a key of its own.
func bootstrapGossipKey(secret mesh.Secret) []byte {
	return keyed(secret, gossipLabel, nil)[:gossip.KeySize]
}
