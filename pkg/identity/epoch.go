package identity

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// VerifyEpoch checks that a root of mesh m signed s, and returns what it says.
// That a certificate has ended since does not matter. It returns ErrInvalid or,
// for whoever is not the root, ErrDenied.
func VerifyEpoch(roots *x509.CertPool, m mesh.ID, s mesh.SignedEpoch) (mesh.Epoch, error) {
	e, err := parseEpoch(m, s.Payload)
	if err != nil {
		return mesh.Epoch{}, err
	}
	no := func(why string) (mesh.Epoch, error) {
		return mesh.Epoch{}, fmt.Errorf("identity: verify epoch: %s: %w", why, mesh.ErrDenied)
	}
	if len(s.Signer) > maxSigner {
		return no("the signer's certificate is too long")
	}
	signer, err := x509.ParseCertificate(s.Signer)
	if err != nil {
		return no("the signer's certificate is not readable")
	}
	// A chain of one is a root itself: what the root has signed may not speak
	// for it.
	chains, err := signer.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: signer.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil || len(chains) != 1 || len(chains[0]) != 1 {
		return no("the signer is not this mesh's root")
	}
	pub, ok := signer.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(pub, mesh.EpochDigest(s.Payload), s.Signature) {
		return no("the signature does not match")
	}
	return e, nil
}

func parseEpoch(m mesh.ID, payload []byte) (mesh.Epoch, error) {
	bad := func(why string) (mesh.Epoch, error) {
		return mesh.Epoch{}, fmt.Errorf("identity: parse epoch: %s: %w", why, mesh.ErrInvalid)
	}
	if len(payload) > maxPayload {
		return bad("it is too long")
	}
	var e mesh.Epoch
	if json.Unmarshal(payload, &e) != nil {
		return bad("it is not readable")
	}
	switch {
	case e.Mesh != m:
		return bad("it is of another mesh")
	case e.Epoch < 1 || e.At.IsZero():
		return bad("it has no number or no time")
	}
	return e, nil
}

// EpochOf is the epoch that a mesh's configuration proves. Without a proof it
// is 1, whatever the number says: the state can be written by whoever has a
// server's disk, the root's word cannot. A proof that does not hold, and a
// number that it does not bear out, are ErrDenied.
func EpochOf(roots *x509.CertPool, m mesh.ID, c mesh.Config) (int64, error) {
	proven := int64(1)
	if !c.EpochProof.IsZero() {
		e, err := VerifyEpoch(roots, m, c.EpochProof)
		if err != nil {
			return 1, fmt.Errorf("identity: epoch %d: %w: %w", c.Epoch, err, mesh.ErrDenied)
		}
		proven = e.Epoch
	}
	if c.Epoch != proven {
		return proven, fmt.Errorf("identity: the state says epoch %d, and the root's word is for %d: %w", c.Epoch, proven, mesh.ErrDenied)
	}
	return proven, nil
}
