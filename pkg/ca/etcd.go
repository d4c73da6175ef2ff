package ca

import (
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	etcdLife = 20 * year
	// DefaultEtcdLife is how long what etcd's CA issues lives: it is made anew at
	// each start, and before its end.
	DefaultEtcdLife = 2 * year
)

// EtcdCA is etcd's own CA. It stands outside the mesh root because etcd takes a
// certificate's common name for a user, and because each server must be able to
// make its own certificates at start, before etcd or the mesh CA run.
type EtcdCA struct {
	// Life is that of what it issues; 0: DefaultEtcdLife. It never outlives the CA.
	Life time.Duration

	cert *x509.Certificate
	key  crypto.Signer
}

// EtcdUse is what a certificate of etcd's is for.
type EtcdUse int

// Uses of etcd certificates.
const (
	EtcdServer EtcdUse = iota + 1 // listens for clients
	EtcdPeer                      // listens for and dials other members
	EtcdClient                    // dials the server
)

// NewEtcdCA makes the CA for the mesh's etcd.
func NewEtcdCA(m mesh.ID, now time.Time) (*EtcdCA, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	cert, err := selfSigned(authorityTemplate("meshctl "+string(m)+" etcd", 0, now, etcdLife), key)
	if err != nil {
		return nil, err
	}
	return &EtcdCA{cert: cert, key: key}, nil
}

// Marshal writes certificate and key as PEM, for a 0600 file.
func (c *EtcdCA) Marshal() (mesh.Secret, error) {
	key, err := MarshalKey(c.key)
	if err != nil {
		return "", err
	}
	return mesh.Secret(MarshalCert(c.cert)) + key, nil
}

// ParseEtcdCA reads what Marshal wrote. Errors contain none of it.
func ParseEtcdCA(text mesh.Secret) (*EtcdCA, error) {
	block, rest := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, fmt.Errorf("ca: read etcd CA: no PEM in it: %w", mesh.ErrInvalid)
	}
	cert, err := ParseCert(pem.EncodeToMemory(block))
	if err != nil {
		return nil, fmt.Errorf("ca: read etcd CA: %w", err)
	}
	key, err := ParseKey(mesh.Secret(rest))
	if err != nil {
		return nil, fmt.Errorf("ca: read etcd CA: %w", err)
	}
	if !sameKey(key.Public(), cert.PublicKey) {
		return nil, fmt.Errorf("ca: read etcd CA: the key is not the certificate's: %w", mesh.ErrInvalid)
	}
	return &EtcdCA{cert: cert, key: key}, nil
}

// Cert is the CA certificate.
func (c *EtcdCA) Cert() *x509.Certificate { return c.cert }

// Pool is a pool of the CA alone.
func (c *EtcdCA) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c.cert)
	return p
}

// EtcdCert is a certificate for etcd and its key, as PEM files hold them.
type EtcdCert struct {
	Cert []byte
	Key  mesh.Secret
}

// TLS returns the pair for a TLS configuration.
func (e EtcdCert) TLS() (tls.Certificate, error) {
	return tls.X509KeyPair(e.Cert, []byte(e.Key.Reveal()))
}

// Issue makes a key and its certificate with the common name cn, for the given
// DNS names and IP addresses.
func (c *EtcdCA) Issue(use EtcdUse, cn string, hosts []string, now time.Time) (EtcdCert, error) {
	key, err := NewKey()
	if err != nil {
		return EtcdCert{}, err
	}
	tmpl := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: cn},
		NotBefore:             now.Add(-mesh.Backdate),
		NotAfter:              earlier(now.Add(cmp.Or(c.Life, DefaultEtcdLife)), c.cert.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	if tmpl.ExtKeyUsage, err = etcdUsage(use); err != nil {
		return EtcdCert{}, err
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	leaf, err := signCert(tmpl, c.cert, &key.PublicKey, c.key)
	if err != nil {
		return EtcdCert{}, err
	}
	keyPEM, err := MarshalKey(key)
	return EtcdCert{Cert: MarshalCert(leaf), Key: keyPEM}, err
}

func etcdUsage(use EtcdUse) ([]x509.ExtKeyUsage, error) {
	switch use {
	case EtcdServer:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, nil
	case EtcdPeer:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, nil
	case EtcdClient:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, nil
	}
	return nil, fmt.Errorf("ca: etcd certificate for use %d: %w", use, mesh.ErrInvalid)
}
