package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxChain bounds what a stranger can make us verify: leaf, intermediate, root
// and two of either during a rotation.
const maxChain = 5

// verifyChain checks that certs, as a peer sent them, lead from a leaf with an
// identity to one of roots, at now and for usage. Up to grace after its end a
// leaf passes with Expired set.
func verifyChain(certs []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time, grace time.Duration) (Peer, error) {
	if len(certs) > maxChain {
		return Peer{}, fmt.Errorf("identity: check certificate: chain of %d, want at most %d: %w", len(certs), maxChain, mesh.ErrDenied)
	}
	p, err := readPeer(certs, now)
	if err != nil {
		return Peer{}, err
	}
	leaf := p.Leaf
	if now.Before(leaf.NotBefore) {
		return Peer{}, notYet(leaf, now)
	}
	at := now
	if p.Expired {
		if now.After(leaf.NotAfter.Add(grace)) {
			return Peer{}, mesh.WithHint(denied(leaf, "it ended at "+stamp(leaf.NotAfter)+", it is now "+stamp(now)),
				"if this machine's clock is right, the other side must join again with a new token")
		}
		at = leaf.NotAfter
	}
	// A leaf without extended usage would pass for any.
	if !slices.Contains(leaf.ExtKeyUsage, usage) || leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return Peer{}, denied(leaf, fmt.Sprintf("its key usage does not allow %v", usage))
	}
	inter := x509.NewCertPool()
	for _, c := range certs[1:] {
		inter.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: inter, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return Peer{}, chainError(leaf, err)
	}
	return p, nil
}

func notYet(leaf *x509.Certificate, now time.Time) error {
	return mesh.WithHint(
		denied(leaf, fmt.Sprintf("not yet valid: this machine's clock says %s, the certificate begins at %s", stamp(now), stamp(leaf.NotBefore))),
		"set the clocks of both machines (for example with chrony or systemd-timesyncd)")
}

// chainError says in words of ours what x509 found.
func chainError(leaf *x509.Certificate, err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return denied(leaf, "it does not chain to this mesh's root")
	}
	return denied(leaf, err.Error())
}
