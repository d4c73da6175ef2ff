package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	year             = 365 * 24 * time.Hour
	rootLife         = 20 * year
	intermediateLife = 5 * year
)

// Root is the mesh's root with its key, as it exists for the moments in which a
// mesh is founded or a management server admitted.
type Root struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// NewRoot makes the root of mesh m.
func NewRoot(m mesh.ID, now time.Time) (*Root, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	cert, err := selfSigned(authorityTemplate("meshctl "+string(m)+" root", 1, now, rootLife), key)
	if err != nil {
		return nil, err
	}
	return &Root{cert: cert, key: key}, nil
}

// Cert is the root certificate.
func (r *Root) Cert() *x509.Certificate { return r.cert }

// Intermediate signs the CA certificate of one management server, whose key
// stays there. It can issue leaves and no further CA.
func (r *Root) Intermediate(server mesh.ServerID, pub crypto.PublicKey, now time.Time) (*x509.Certificate, error) {
	if why := weak(pub); why != "" {
		return nil, fmt.Errorf("ca: sign intermediate: %s: %w", why, mesh.ErrInvalid)
	}
	m, err := meshOf(r.cert)
	if err != nil {
		return nil, err
	}
	tmpl := authorityTemplate(mesh.IssuerName(m, server), 0, now, intermediateLife)
	tmpl.NotAfter = earlier(tmpl.NotAfter, r.cert.NotAfter)
	return signCert(tmpl, r.cert, pub, r.key)
}

// meshOf reads the mesh's id from its root.
func meshOf(root *x509.Certificate) (mesh.ID, error) {
	var id, kind string
	if n, err := fmt.Sscanf(root.Subject.CommonName, "meshctl %s %s", &id, &kind); err != nil || n != 2 || kind != "root" {
		return "", fmt.Errorf("ca: certificate %q is no mesh root: %w", mesh.Quotable(root.Subject.CommonName), mesh.ErrInvalid)
	}
	return mesh.ParseID(id)
}

// authorityTemplate is what all CAs here have in common.
func authorityTemplate(name string, pathLen int, now time.Time, life time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-mesh.Backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            pathLen,
		MaxPathLenZero:        pathLen == 0,
	}
}

func selfSigned(tmpl *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	return signCert(tmpl, tmpl, &key.PublicKey, key)
}

func signCert(tmpl, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("ca: sign certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("ca: sign certificate: %w", err)
	}
	return c, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
