package identity

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	pemKey  = "PRIVATE KEY"
	pemCert = "CERTIFICATE"
	pemRoot = "MESH ROOT" // roots trusted beside the chain's own
)

// encodeCredentials writes key, chain and roots as one text.
func encodeCredentials(c *credentials) ([]byte, error) {
	key, err := encodeKey(c.cert.PrivateKey.(crypto.Signer))
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(key)
	for _, x := range c.chain {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: x.Raw}))
	}
	for _, x := range c.roots {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: pemRoot, Bytes: x.Raw}))
	}
	return out.Bytes(), nil
}

// decodeCredentials reads and checks what encodeCredentials wrote. The roots
// come last, so a text that was cut short is noticed.
func decodeCredentials(b []byte) (*credentials, error) {
	var key crypto.Signer
	var chain [][]byte
	var roots []*x509.Certificate
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			break
		}
		b = rest
		var err error
		switch block.Type {
		case pemKey:
			key, err = parseKey(block.Bytes)
		case pemCert:
			chain = append(chain, block.Bytes)
		case pemRoot:
			var x *x509.Certificate
			if x, err = x509.ParseCertificate(block.Bytes); err == nil {
				roots = append(roots, x)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("identity: part %s is not readable: %w", block.Type, mesh.ErrInvalid)
		}
	}
	if key == nil || len(chain) == 0 || len(roots) == 0 || len(bytes.TrimSpace(b)) > 0 {
		return nil, fmt.Errorf("identity: parts are missing: %w", mesh.ErrInvalid)
	}
	return newCredentials(chain, key, roots)
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("identity: encode key of type %T: %w", key, mesh.ErrInvalid)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

func decodeKey(b []byte) (crypto.Signer, error) {
	block, rest := pem.Decode(b)
	if block == nil || block.Type != pemKey || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("identity: no key in it: %w", mesh.ErrInvalid)
	}
	return parseKey(block.Bytes)
}

// parseKey never wraps the parser's error, which might quote the key.
func parseKey(der []byte) (crypto.Signer, error) {
	k, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("identity: key not readable: %w", mesh.ErrInvalid)
	}
	s, ok := k.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("identity: key not readable: %w", mesh.ErrInvalid)
	}
	return s, nil
}
