package identity

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// RevocationContext precedes the payload when a revocation is signed.
const RevocationContext = mesh.RevocationContext

const (
	maxPayload = 4 << 10
	maxSigner  = 8 << 10
	maxSerial  = 50 // decimal digits of 20 bytes, and one to spare
)

// VerifyRevocation checks that a CA of the mesh signed r and returns what it
// signed; r.Record is not looked at. The signer need only have been valid when
// it signed. It returns ErrInvalid or, for a bad signature, ErrDenied.
func VerifyRevocation(roots *x509.CertPool, r mesh.SignedRevocation) (mesh.Revocation, error) {
	rec, err := parseRevocation(r.Payload)
	if err != nil {
		return mesh.Revocation{}, err
	}
	if len(r.Signer) > maxSigner {
		return mesh.Revocation{}, revocationDenied("the signer's certificate is too long")
	}
	signer, err := x509.ParseCertificate(r.Signer)
	if err != nil {
		return mesh.Revocation{}, revocationDenied("the signer's certificate is not readable")
	}
	if !signer.IsCA || signer.KeyUsage&x509.KeyUsageCertSign == 0 {
		return mesh.Revocation{}, revocationDenied("the signer is no CA")
	}
	_, err = signer.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: rec.At, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return mesh.Revocation{}, revocationDenied("the signer does not chain to this mesh's root")
	}
	pub, ok := signer.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(pub, mesh.RevocationDigest(r.Payload), r.Signature) {
		return mesh.Revocation{}, revocationDenied("the signature does not match")
	}
	return rec, nil
}

func revocationDenied(why string) error {
	return fmt.Errorf("identity: verify revocation: %s: %w", why, mesh.ErrDenied)
}

// parseRevocation reads a payload. Members it does not know are of newer
// servers and are ignored.
func parseRevocation(payload []byte) (mesh.Revocation, error) {
	bad := func(why string) (mesh.Revocation, error) {
		return mesh.Revocation{}, fmt.Errorf("identity: parse revocation: %s: %w", why, mesh.ErrInvalid)
	}
	if len(payload) > maxPayload {
		return bad("it is too long")
	}
	var r mesh.Revocation
	if json.Unmarshal(payload, &r) != nil {
		return bad("it is not readable")
	}
	switch {
	case r.ID == "" || len(r.ID) > 64:
		return bad("its id is missing or too long")
	case r.At.IsZero() || r.Until.IsZero():
		return bad("it has no time")
	case (r.Serial == "") == (r.Node == "" || r.IssuedBefore.IsZero()):
		return bad("it names neither one serial nor a node and a time")
	case len(r.Serial) > maxSerial || strings.Trim(r.Serial, "0123456789") != "":
		return bad("its serial is no decimal number")
	}
	return r, nil
}
