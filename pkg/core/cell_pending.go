package core

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// pendingKey is a key whose certificate is being made. The zero one is none.
type pendingKey struct {
	key    *ecdsa.PrivateKey
	suffix mesh.ServerName
}

func (p pendingKey) serves(suffix mesh.ServerName) bool {
	return p.key != nil && suffix != "" && p.suffix == suffix
}

// request is one for a wildcard below the suffix, and for nothing else.
func (p pendingKey) request() ([]byte, error) {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{wildcard(p.suffix)}}, p.key)
	if err != nil {
		return nil, fmt.Errorf("core: cell certificate: make request: %w", err)
	}
	return csr, nil
}

func wildcard(suffix mesh.ServerName) string { return "*." + string(suffix) }

// pendingPath is beside the file of the certificate, which goes on being used.
func pendingPath(cell string) string { return cell + ".pending" }

func savePending(cell string, p pendingKey) error {
	if cell == "" {
		return nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return fmt.Errorf("core: save key of a cell certificate: %w", err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: pemKey, Headers: map[string]string{pemSuffix: string(p.suffix)}, Bytes: der})
	if have, err := os.ReadFile(pendingPath(cell)); err == nil && bytes.Equal(have, b) {
		return nil
	}
	return durable.Write(pendingPath(cell), b)
}

// loadPending returns ErrNotFound when there is no such file.
func loadPending(cell string) (p pendingKey, err error) {
	if cell == "" {
		return p, nil
	}
	_, err = durable.Read(pendingPath(cell), func(b []byte) (err error) {
		p.key, p.suffix, _, err = parseCellKey(b)
		return err
	})
	return p, err
}

// dropPending removes the file and the version before it.
func dropPending(cell string) error {
	if cell == "" {
		return nil
	}
	return durable.Remove(pendingPath(cell))
}
