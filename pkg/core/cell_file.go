package core

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// The file of a cell certificate holds key and chain together, so that no
// crash leaves a mix:
//
//	PRIVATE KEY   with the header Suffix
//	CERTIFICATE   leaf, … , CA of the cell
const (
	pemKey    = "PRIVATE KEY"
	pemCert   = "CERTIFICATE"
	pemSuffix = "Suffix"
)

func saveCell(path string, c *tls.Certificate, suffix mesh.ServerName) error {
	if path == "" {
		return nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return fmt.Errorf("core: save cell certificate: %w", err)
	}
	var b bytes.Buffer
	blocks := []*pem.Block{{Type: pemKey, Headers: map[string]string{pemSuffix: string(suffix)}, Bytes: der}}
	for _, x := range c.Certificate {
		blocks = append(blocks, &pem.Block{Type: pemCert, Bytes: x})
	}
	for _, x := range blocks {
		if err := pem.Encode(&b, x); err != nil {
			return fmt.Errorf("core: save cell certificate: %w", err)
		}
	}
	return durable.Write(path, b.Bytes())
}

// loadCell returns ErrNotFound when there is no such file.
func loadCell(path string) (cert *tls.Certificate, suffix mesh.ServerName, err error) {
	if path == "" {
		return nil, "", fmt.Errorf("core: cell certificate: %w", mesh.ErrNotFound)
	}
	_, err = durable.Read(path, func(b []byte) (err error) {
		cert, suffix, err = parseCell(b)
		return err
	})
	return cert, suffix, err
}

func parseCell(b []byte) (*tls.Certificate, mesh.ServerName, error) {
	key, suffix, rest, err := parseCellKey(b)
	if err != nil {
		return nil, "", err
	}
	var chain [][]byte
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		chain = append(chain, block.Bytes)
	}
	return verifyStored(chain, key, suffix)
}

func parseCellKey(b []byte) (key *ecdsa.PrivateKey, suffix mesh.ServerName, rest []byte, err error) {
	first, rest := pem.Decode(b)
	if first == nil || first.Type != pemKey {
		return nil, "", nil, fmt.Errorf("core: cell certificate: no key: %w", mesh.ErrInvalid)
	}
	if suffix, err = mesh.ParseServerName(first.Headers[pemSuffix]); err != nil {
		return nil, "", nil, err
	}
	k, err := x509.ParsePKCS8PrivateKey(first.Bytes)
	if err != nil {
		return nil, "", nil, fmt.Errorf("core: cell certificate: %w: %w", mesh.ErrInvalid, err)
	}
	key, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, "", nil, fmt.Errorf("core: cell certificate: a %T: %w", k, mesh.ErrInvalid)
	}
	return key, suffix, rest, nil
}

// verifyStored takes an expired certificate too: it is not shown, and asks for
// the next.
func verifyStored(chain [][]byte, key crypto.Signer, suffix mesh.ServerName) (*tls.Certificate, mesh.ServerName, error) {
	if len(chain) == 0 {
		return nil, "", fmt.Errorf("core: cell certificate: no certificate: %w", mesh.ErrInvalid)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return nil, "", fmt.Errorf("core: cell certificate: %w: %w", mesh.ErrInvalid, err)
	}
	at := leaf.NotBefore.Add(time.Second)
	cert, err := checkCell(chain, key, suffix, at)
	return cert, suffix, err
}
