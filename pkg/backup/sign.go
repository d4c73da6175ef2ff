package backup

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// signContext precedes the manifest when it is signed, so that no other
	// signature by the same key can be taken for one of a backup.
	signContext  = "meshctl backup manifest v1\x00"
	pemSignature = "MESHCTL BACKUP SIGNATURE"
	pemCert      = "CERTIFICATE"
	maxSignature = 64 << 10
)

// sign returns the file that goes beside a manifest: the signature, and the
// certificates from the signer's up to the root.
func sign(manifest []byte, key crypto.Signer, chain []*x509.Certificate) ([]byte, error) {
	text := append([]byte(signContext), manifest...)
	var sig []byte
	var err error
	switch key.Public().(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(text)
		sig, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
	case ed25519.PublicKey:
		sig, err = key.Sign(rand.Reader, text, crypto.Hash(0))
	default:
		return nil, fmt.Errorf("backup: sign: a key of type %T: want ECDSA or Ed25519: %w", key.Public(), mesh.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: sign: %w", err)
	}
	out := pem.EncodeToMemory(&pem.Block{Type: pemSignature, Bytes: sig})
	for _, c := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: c.Raw})...)
	}
	return out, nil
}

// VerifyManifest checks that the manifest was signed by a server of the mesh
// with that root (SHA-256 of the certificate's DER), and returns it and the
// server. It says nothing about the other files; Read does. It returns
// ErrDenied, ErrInvalid for what cannot be read, or *TooNewError.
func VerifyManifest(manifest, signature []byte, root [sha256.Size]byte) (*Manifest, mesh.ServerID, error) {
	denied := func(err error) (*Manifest, mesh.ServerID, error) {
		return nil, "", fmt.Errorf("backup: %s: %w: %w", fileSignature, err, mesh.ErrDenied)
	}
	sig, chain, err := parseSignature(signature)
	if err != nil {
		return denied(err)
	}
	if len(manifest) > maxManifest {
		return nil, "", fmt.Errorf("backup: %s: %d bytes: want at most %d: %w", fileManifest, len(manifest), maxManifest, mesh.ErrInvalid)
	}
	text := append([]byte(signContext), manifest...)
	ok := false
	switch key := chain[0].PublicKey.(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(text)
		ok = ecdsa.VerifyASN1(key, sum[:], sig)
	case ed25519.PublicKey:
		ok = ed25519.Verify(key, text, sig)
	}
	if !ok {
		return denied(errors.New("it is not of this manifest"))
	}
	m, err := ParseManifest(manifest)
	if err != nil {
		return nil, "", err
	}
	// The certificate has to have been good when the manifest was made, not when
	// it is read: backups outlive it by years.
	server, err := identity.VerifyBackupChain(chain, root, m.Mesh, m.Time)
	if err != nil {
		return nil, "", fmt.Errorf("backup: %s: %w", fileSignature, err)
	}
	if server != m.Server {
		return denied(fmt.Errorf("%s has signed what %s made", server, mesh.Quotable(string(m.Server))))
	}
	return m, server, nil
}

func parseSignature(data []byte) (sig []byte, chain []*x509.Certificate, err error) {
	if len(data) > maxSignature {
		return nil, nil, fmt.Errorf("%d bytes: want at most %d", len(data), maxSignature)
	}
	for rest := bytes.TrimSpace(data); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, nil, errors.New("it is no PEM")
		}
		switch {
		case b.Type == pemSignature && sig == nil:
			sig = b.Bytes
		case b.Type == pemCert && len(chain) < 8:
			c, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				return nil, nil, err
			}
			chain = append(chain, c)
		default:
			return nil, nil, fmt.Errorf("a block %.40q that does not belong there", b.Type)
		}
	}
	if sig == nil || len(chain) == 0 {
		return nil, nil, errors.New("want a signature and certificates")
	}
	return sig, chain, nil
}
