package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	pemKey  = "PRIVATE KEY"
	pemCert = "CERTIFICATE"
)

// NewKey makes a key of the kind this package signs with: ECDSA P-256.
func NewKey() (*ecdsa.PrivateKey, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("ca: make key: %w", err)
	}
	return k, nil
}

// MarshalKey writes a private key as PEM (PKCS #8).
func MarshalKey(key crypto.Signer) (mesh.Secret, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("ca: write key of type %T: %w", key, mesh.ErrInvalid)
	}
	return mesh.Secret(pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der})), nil
}

// ParseKey reads what MarshalKey wrote. Errors contain none of it.
func ParseKey(text mesh.Secret) (crypto.Signer, error) {
	block, rest := pem.Decode([]byte(text.Reveal()))
	if block == nil || block.Type != pemKey || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("ca: read key: not one PEM private key: %w", mesh.ErrInvalid)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	signer, ok := k.(crypto.Signer)
	if err != nil || !ok {
		return nil, fmt.Errorf("ca: read key: damaged or of another kind: %w", mesh.ErrInvalid)
	}
	return signer, nil
}

// MarshalCert writes a certificate as PEM.
func MarshalCert(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: c.Raw})
}

// ParseCert reads one PEM certificate.
func ParseCert(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemCert || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("ca: read certificate: not one PEM certificate: %w", mesh.ErrInvalid)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("ca: read certificate: damaged: %w", mesh.ErrInvalid)
	}
	return c, nil
}

// MaxCSR is how long a certificate request may be, in bytes.
const MaxCSR = 4 << 10

// CheckCSR reads a PKCS #10 request (DER) of at most MaxCSR bytes and returns
// its public key: ECDSA P-256 or P-384, Ed25519, or RSA of 2048 to 8192 bits.
// The signature proves that the requester holds the key. Names and extensions
// are ignored. It returns ErrInvalid.
func CheckCSR(der []byte) (crypto.PublicKey, error) {
	csr, err := parseCSR(der)
	if err != nil {
		return nil, err
	}
	return csr.PublicKey, nil
}

func parseCSR(der []byte) (*x509.CertificateRequest, error) {
	bad := func(why string) (*x509.CertificateRequest, error) {
		return nil, fmt.Errorf("ca: check certificate request: %s: %w", why, mesh.ErrInvalid)
	}
	if len(der) > MaxCSR {
		return bad(fmt.Sprintf("%d bytes, at most %d", len(der), MaxCSR))
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return bad("it is not readable")
	}
	if why := weak(csr.PublicKey); why != "" {
		return bad(why)
	}
	if csr.CheckSignature() != nil {
		return bad("its signature does not match its key")
	}
	return csr, nil
}

func weak(pub crypto.PublicKey) string {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() {
			return "its curve is neither P-256 nor P-384"
		}
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < 2048 || n > 8192 {
			return fmt.Sprintf("its RSA key has %d bits, want 2048 to 8192", n)
		}
	case ed25519.PublicKey:
	default:
		return "its key is of a kind that is not used here"
	}
	return ""
}

// newSerial returns 127 random bits, never zero.
func newSerial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b) // never fails (crypto/rand)
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b)
}
