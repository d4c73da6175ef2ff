package mesh

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// Verifiers let a core check credentials without being able to present them.
// Secrets are random and at least 128 bits, so fast hashes serve. Each is
// base64url(SHA-256("meshctl <protocol> v1\x00" + device id + "\x00" + what the
// client sends)), without padding.
type Verifiers struct {
	// HTTP is of the secret itself, which is the password of HTTP and of SOCKS.
	HTTP string `json:"http"`
	// VLESS is of the 16 bytes of Secret.UserID.
	VLESS string `json:"vless,omitzero"`
	// Trojan is of Secret.TrojanKey.
	Trojan string `json:"trojan,omitzero"`
}

// NewVerifiers derives every verifier of a device's secret.
func NewVerifiers(id DeviceID, secret Secret) Verifiers {
	user := secret.UserID(id)
	return Verifiers{
		HTTP:   verifier("http", id, secret.Reveal()),
		VLESS:  verifier("vless", id, string(user[:])),
		Trojan: verifier("trojan", id, secret.TrojanKey()),
	}
}

// CheckHTTP says in constant time whether secret belongs to device id.
func (v Verifiers) CheckHTTP(id DeviceID, secret Secret) bool {
	return same(v.HTTP, verifier("http", id, secret.Reveal()))
}

// CheckVLESS says in constant time whether user is that of device id.
func (v Verifiers) CheckVLESS(id DeviceID, user UserID) bool {
	return same(v.VLESS, verifier("vless", id, string(user[:])))
}

// CheckTrojan says in constant time whether key, as a Trojan client sends it, is
// that of device id.
func (v Verifiers) CheckTrojan(id DeviceID, key string) bool {
	return same(v.Trojan, verifier("trojan", id, key))
}

// same is never true of a verifier that is not there.
func same(have, got string) bool {
	return have != "" && subtle.ConstantTimeCompare([]byte(have), []byte(got)) == 1
}

func verifier(protocol string, id DeviceID, sent string) string {
	sum := sha256.Sum256([]byte("meshctl " + protocol + " v1\x00" + string(id) + "\x00" + sent))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// UserID is the UUID by which a VLESS client shows who it is. It is as secret as
// a password.
type UserID [16]byte

// UserID derives the user id from a device's secret, so that there is one secret
// to keep and to replace: a UUID of version 8 (RFC 9562, 5.8) from
// SHA-256("meshctl vless user v1\x00" + device id + "\x00" + secret).
func (s Secret) UserID(id DeviceID) UserID {
	sum := sha256.Sum256([]byte("meshctl vless user v1\x00" + string(id) + "\x00" + s.Reveal()))
	u := UserID(sum[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return u
}

// Reveal returns the text of the UUID, in lower case.
func (u UserID) Reveal() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func (u UserID) String() string   { return redacted }
func (u UserID) GoString() string { return redacted }

// TrojanKey is what a Trojan client sends instead of its password: 56 digits of
// SHA-224 in lower case (trojan-gfw.github.io/trojan/protocol).
func (s Secret) TrojanKey() string {
	sum := sha256.Sum224([]byte(s.Reveal()))
	return hex.EncodeToString(sum[:])
}

// SubscriptionHash is what is stored of a subscription link's secret:
// base64url(SHA-256("meshctl subscription v1\x00" + secret)), without padding.
func SubscriptionHash(secret Secret) string {
	sum := sha256.Sum256([]byte("meshctl subscription v1\x00" + secret.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
