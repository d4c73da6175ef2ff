package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Pending is a key that waits for its certificate.
type Pending struct {
	// Pin, unless zero, is the SHA-256 that the root in Commit's chain must
	// have: set it from the join token.
	Pin [32]byte

	key crypto.Signer
	csr []byte
}

// CSR is the request for a certificate, DER. It names nobody: the server knows
// who asks.
func (p *Pending) CSR() []byte { return p.csr }

// KeyHash names the key, as mesh.CertRecord does.
func (p *Pending) KeyHash() string { return KeyHash(p.key.Public()) }

// NewRequest makes a key (ECDSA P-256) and keeps it until Commit, or returns the
// one it kept before: when a reply was lost, the same key may ask again. The
// key is on disk before anybody hears of it. It returns ErrInvalid when the
// kept key is damaged and there is no identity yet; with one, it makes another.
func (f *Folder) NewRequest() (*Pending, error) {
	key, err := f.pendingKey()
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("identity: make certificate request: %w", err)
	}
	return &Pending{key: key, csr: csr}, nil
}

func (f *Folder) pendingKey() (crypto.Signer, error) {
	path := filepath.Join(f.dir, pendingFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.newKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("identity: read pending key: %w", err)
	}
	if err := private(path, "0600"); err != nil {
		return nil, err
	}
	held, loadErr := f.Load()
	key, err := decodeKey(b)
	if err != nil && loadErr == nil {
		// To renew, any key will do: no token was spent on this one.
		if f.Log != nil {
			f.Log.Warn("damaged key replaced", "file", path, "err", err)
		}
		return f.newKey(path)
	}
	if err != nil {
		return nil, mesh.WithHint(fmt.Errorf("identity: read pending key %s: the file is damaged: %w", path, err),
			"remove the file; if a token was used with that key, a new token is needed")
	}
	// A crash between storing a certificate and dropping its pending key must
	// not make the next certificate reuse the key.
	if loadErr == nil && KeyHash(held.Leaf().PublicKey) == KeyHash(key.Public()) {
		return f.newKey(path)
	}
	return key, nil
}

func (f *Folder) newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("identity: make key: %w", err)
	}
	b, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	if err := writeFile(path, b, f.step); err != nil {
		return nil, fmt.Errorf("identity: keep key: %w", err)
	}
	return key, nil
}
