//go:build kube

package kube

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the folder with the certificates of a cluster.
type pki string

func (p pki) cert(name string) string { return filepath.Join(string(p), name+".crt") }
func (p pki) key(name string) string  { return filepath.Join(string(p), name+".key") }

// authority signs certificates.
type authority struct {
	pki
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (p pki) newAuthority(name string) (*authority, error) {
	a := &authority{pki: p, name: name, cert: &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	a.cert, err = a.sign(name, a.cert, a.key)
	return a, err
}

// issue makes a certificate for a server and client; names of hosts are IP
// addresses or DNS names.
func (a *authority) issue(file string, subject pkix.Name, hosts ...string) error {
	cert := &x509.Certificate{
		Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if addr := net.ParseIP(h); addr != nil {
			cert.IPAddresses = append(cert.IPAddresses, addr)
		} else {
			cert.DNSNames = append(cert.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	_, err = a.sign(file, cert, key)
	return err
}

// sign completes the certificate and writes it and its key.
func (a *authority) sign(file string, cert *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	cert.SerialNumber = serial
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(a.pki.cert(file), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	if err := a.writeKey(file, key); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (p pki) writeKey(file string, key crypto.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(p.key(file), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// tokenKey makes the pair that signs and checks tokens of service accounts.
func (p pki) tokenKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := p.writeKey(file, key); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(string(p), file+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600)
}

// kubeconfig is a file for the holder of a certificate, with all that it needs
// in it; JSON, which is YAML too.
func (p pki) kubeconfig(name, server string) (string, error) {
	ca, err := os.ReadFile(p.cert("ca"))
	if err != nil {
		return "", err
	}
	cert, err := os.ReadFile(p.cert(name))
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(p.key(name))
	if err != nil {
		return "", err
	}
	return p.writeKubeconfig(name, server, map[string]any{"client-certificate-data": cert, "client-key-data": key}, ca)
}

func (p pki) writeKubeconfig(name, server string, user map[string]any, ca []byte) (string, error) {
	data, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": server, "certificate-authority-data": ca}}},
		"users":    []any{map[string]any{"name": name, "user": user}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": name}}},
	}, "", "  ")
	if err != nil {
		return "", err
	}
	file := filepath.Join(string(p), name+".kubeconfig")
	return file, os.WriteFile(file, data, 0o600)
}

// client is TLS as the holder of a certificate.
func (p pki) client(name string) (*tls.Config, error) {
	ca, err := os.ReadFile(p.cert("ca"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(p.cert(name), p.key(name))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, nil
}
