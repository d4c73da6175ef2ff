package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// DocumentSigning is the one use of a certificate for signing backups (RFC
// 9336). No TLS peer takes it.
func DocumentSigning() asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 36}
}

// VerifyBackupChain checks that chain (leaf first) certifies a key for signing
// backups of mesh m, at the time at, under the root with that SHA-256 of its
// DER, which must be in the chain. It returns whose key it is, or ErrDenied.
func VerifyBackupChain(chain []*x509.Certificate, rootSHA256 [32]byte, m mesh.ID, at time.Time) (mesh.ServerID, error) {
	switch {
	case len(chain) == 0:
		return "", fmt.Errorf("identity: check backup signer: no certificate: %w", mesh.ErrDenied)
	case len(chain) > maxChain:
		return "", fmt.Errorf("identity: check backup signer: chain of %d, want at most %d: %w", len(chain), maxChain, mesh.ErrDenied)
	}
	leaf := chain[0]
	server, err := backupSigner(leaf, m)
	if err != nil {
		return "", err
	}
	roots, inter := x509.NewCertPool(), x509.NewCertPool()
	pinned := false
	for _, c := range chain[1:] {
		if sha256.Sum256(c.Raw) == rootSHA256 {
			roots.AddCert(c)
			pinned = true
		} else {
			inter.AddCert(c)
		}
	}
	if !pinned {
		return "", denied(leaf, "its chain does not contain the root that was asked for")
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: inter, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return "", chainError(leaf, err)
	}
	return server, nil
}

// backupSigner reads a leaf; it verifies no signature.
func backupSigner(leaf *x509.Certificate, m mesh.ID) (mesh.ServerID, error) {
	switch {
	case leaf.IsCA:
		return "", denied(leaf, "it is a CA certificate")
	case len(leaf.URIs) != 1:
		return "", denied(leaf, fmt.Sprintf("it carries %d URI names, want one", len(leaf.URIs)))
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0,
		len(leaf.ExtKeyUsage) != 0,
		!slices.ContainsFunc(leaf.UnknownExtKeyUsage, DocumentSigning().Equal):
		return "", denied(leaf, "its key usage is not that of backups")
	}
	got, server, err := mesh.ParseBackupURI(leaf.URIs[0].String())
	switch {
	case err != nil:
		return "", denied(leaf, fmt.Sprintf("its name is no signer of backups: %v", err))
	case got != m:
		return "", denied(leaf, "it is of another mesh")
	case leaf.Issuer.CommonName != mesh.IssuerName(m, server):
		return "", denied(leaf, "another server than it names has issued it")
	}
	return server, nil
}
