package mesh

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
)

// NewVerifiers derives every verifier of a device's secret.
func NewVerifiers(id DeviceID, secret Secret) Verifiers {
	return Verifiers{HTTP: httpVerifier(id, secret)}
}

// CheckHTTP says in constant time whether secret belongs to device id.
func (v Verifiers) CheckHTTP(id DeviceID, secret Secret) bool {
	return subtle.ConstantTimeCompare([]byte(v.HTTP), []byte(httpVerifier(id, secret))) == 1
}

func httpVerifier(id DeviceID, secret Secret) string {
	sum := sha256.Sum256([]byte("meshctl http v1\x00" + string(id) + "\x00" + secret.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
