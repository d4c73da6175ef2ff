package ca

import (
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const cellLife = 10 * year

// NewCellCA makes the CA of one cell, for what clients see: it can only vouch
// for names below suffix. The caller seals the key.
func NewCellCA(suffix mesh.ServerName, now time.Time) (certPEM string, keyPEM mesh.Secret, err error) {
	suffix, err = mesh.ParseServerName(string(suffix))
	if err != nil {
		return "", "", err
	}
	key, err := NewKey()
	if err != nil {
		return "", "", err
	}
	// Strangers who probe a core see this name: it must not tell what runs there.
	tmpl := authorityTemplate(string(suffix)+" CA", 0, now, cellLife)
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	tmpl.PermittedDNSDomainsCritical = true
	tmpl.PermittedDNSDomains = []string{string(suffix)}
	// A constraint on DNS names alone would leave addresses free.
	tmpl.ExcludedIPRanges = []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
	cert, err := selfSigned(tmpl, key)
	if err != nil {
		return "", "", err
	}
	keyPEM, err = MarshalKey(key)
	return string(MarshalCert(cert)), keyPEM, err
}

// SignCellLeaf signs the wildcard below suffix for the key in a core's request.
// The chain is DER, leaf then CA. It returns ErrInvalid for an unusable request
// and for a CA that may not sign for suffix.
func SignCellLeaf(certPEM string, keyPEM mesh.Secret, csr []byte, suffix mesh.ServerName, life time.Duration, now time.Time) ([][]byte, error) {
	suffix, err := mesh.ParseServerName(string(suffix))
	if err != nil {
		return nil, err
	}
	pub, err := CheckCSR(csr)
	if err != nil {
		return nil, err
	}
	ca, err := ParseCert([]byte(certPEM))
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	leaf, err := signCert(&x509.Certificate{
		SerialNumber:          newSerial(),
		NotBefore:             now.Add(-mesh.Backdate),
		NotAfter:              earlier(now.Add(life), ca.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"*." + string(suffix)},
	}, ca, pub, key)
	if err != nil {
		return nil, err
	}
	// Clients would refuse a name outside the constraint: say so here instead.
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("ca: sign for *.%s: the cell's CA does not cover it (%v): %w", suffix, err, mesh.ErrInvalid)
	}
	return [][]byte{leaf.Raw, ca.Raw}, nil
}
