package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// PinnedTLS is for the first contact of a node that holds only a join token:
// the chain sent by the server must contain the root whose DER has that
// SHA-256, and the leaf must chain to it as a mgmt server. Otherwise the
// handshake fails before the client has sent anything.
func PinnedTLS(rootHash [32]byte, alpn string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{alpn},
		InsecureSkipVerify: true, // the pin is the trust: VerifyConnection checks it
		VerifyConnection: func(cs tls.ConnectionState) error {
			if cs.NegotiatedProtocol != alpn {
				return fmt.Errorf("identity: the server does not speak %s: %w", alpn, mesh.ErrDenied)
			}
			return checkPinned(cs.PeerCertificates, rootHash, time.Now())
		},
	}
}

func checkPinned(certs []*x509.Certificate, rootHash [32]byte, now time.Time) error {
	pool, found := x509.NewCertPool(), false
	for _, c := range certs {
		if sha256.Sum256(c.Raw) == rootHash {
			pool.AddCert(c)
			found = true
		}
	}
	if !found {
		return mesh.WithHint(
			fmt.Errorf("identity: the server does not belong to the mesh this token is for: %w", mesh.ErrDenied),
			"check the address in the token; if it is right, somebody answers in the server's place, or the mesh was founded anew and the token is of the old one")
	}
	p, err := verifyChain(certs, pool, x509.ExtKeyUsageServerAuth, now, 0)
	if err != nil {
		return err
	}
	if p.Role != mesh.RoleMgmt {
		return denied(p.Leaf, fmt.Sprintf("it is for a %s, expected a mgmt server", p.Role))
	}
	return nil
}
