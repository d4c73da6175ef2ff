package mesh

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// Backdate is how far a node certificate's NotBefore lies before the moment it
// was issued, so that a peer whose clock is a little behind accepts it.
const Backdate = 10 * time.Minute

// IssuerName is the subject of the intermediate of a server.
func IssuerName(m ID, s ServerID) string { return "meshctl " + string(m) + " " + string(s) }

// IssuerOf reads which server issued a leaf that was verified, "" when its
// issuer is no server's intermediate.
func IssuerOf(leaf *x509.Certificate) ServerID {
	name := leaf.Issuer.CommonName
	s, err := ParseServerID(name[strings.LastIndexByte(name, ' ')+1:])
	if err != nil {
		return ""
	}
	return s
}

// CertRecord is what is kept of every certificate the CA issued.
type CertRecord struct {
	Serial    string    `json:"serial"` // decimal
	Node      string    `json:"node"`   // role/id
	KeyHash   string    `json:"keyHash"`
	Issuer    string    `json:"issuer"` // server whose intermediate signed
	Issued    time.Time `json:"issued"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	Token     TokenID   `json:"token,omitzero"`    // for a first certificate
	Replaces  string    `json:"replaces,omitzero"` // serial, for a renewed one
}

// Revocation refuses certificates: one serial, or everything a node was issued
// before a time.
type Revocation struct {
	ID           string    `json:"id"` // rises in the order of writing
	Node         string    `json:"node,omitzero"`
	Serial       string    `json:"serial,omitzero"`
	IssuedBefore time.Time `json:"issuedBefore,omitzero"`
	MayRejoin    bool      `json:"mayRejoin,omitzero"`
	Reason       string    `json:"reason,omitzero"`
	At           time.Time `json:"at"`
	By           string    `json:"by"`
	// Until is the end of the last certificate the record covers; after it
	// the record goes.
	Until time.Time `json:"until"`
}

// Devices and members hold no certificates. A record that refuses one has its
// kind in Node instead of a role, and lasts for Remembered: nodes keep it so that
// a restore from a backup that is older does not bring the object back.
const (
	ObjectDevice = "device/"
	ObjectMember = "member/"
	Remembered   = 400 * 24 * time.Hour
)

// Covers says whether r refuses a certificate of node with that serial that was
// issued then.
func (r Revocation) Covers(node, serial string, issued time.Time) bool {
	if r.Serial != "" {
		return r.Serial == serial
	}
	return r.Node == node && issued.Before(r.IssuedBefore)
}

// SignedRevocation is a revocation as nodes receive and keep it.
type SignedRevocation struct {
	Record    Revocation `json:"record"`
	Payload   []byte     `json:"payload"`   // the signed bytes: the record as JSON
	Signature []byte     `json:"signature"` // ECDSA, ASN.1, over SHA-256 of context and payload
	Signer    []byte     `json:"signer"`    // DER of the intermediate that signed; chains to the root
}

// RevocationContext precedes the payload when it is signed, so that no other
// signature by the same key can be taken for a revocation.
const RevocationContext = "meshctl revocation v1\x00"

// RevocationDigest is what is signed: SHA-256 of context and payload.
func RevocationDigest(payload []byte) []byte {
	h := sha256.New()
	h.Write([]byte(RevocationContext))
	h.Write(payload)
	return h.Sum(nil)
}

// KeyHash names a public key: base64url(SHA-256) of its SubjectPublicKeyInfo.
// It returns ErrInvalid for a key that has no such form.
func KeyHash(pub any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("mesh: hash key of type %T: %w", pub, ErrInvalid)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// AdminRole is what an administrator may do; it lives in state, never in the
// certificate. Each role includes the ones after it.
type AdminRole string

// The roles, most powerful first.
const (
	AdminOwner    AdminRole = "owner"
	AdminOperator AdminRole = "operator"
	AdminAuditor  AdminRole = "auditor"
)

// Rank orders roles; 0 is no role at all.
func (r AdminRole) Rank() int {
	switch r {
	case AdminOwner:
		return 3
	case AdminOperator:
		return 2
	case AdminAuditor:
		return 1
	}
	return 0
}

// Includes says whether r may do what need may do.
func (r AdminRole) Includes(need AdminRole) bool { return need.Rank() > 0 && r.Rank() >= need.Rank() }

// Administrator is a person who may call the Admin service from elsewhere.
type Administrator struct {
	ID        AdminID   `json:"id"`
	Name      string    `json:"name"`
	Role      AdminRole `json:"role"`
	Suspended bool      `json:"suspended,omitzero"` // refused until it is lifted
	Revoked   bool      `json:"revoked,omitzero"`
	Banned    bool      `json:"banned,omitzero"` // revoked, and may not join again
	Created   time.Time `json:"created"`
}
