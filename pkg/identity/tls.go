package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Policy is what a listener asks of those who connect. The zero Policy admits
// nobody.
type Policy struct {
	Revocations *Revocations
	// Accept decides by protocol (ALPN) and peer; nil refuses everybody with a
	// certificate. It returns ErrDenied. See Roles.
	Accept func(alpn string, p Peer) error
	// Anonymous admits peers without any certificate to ProtoGRPC: the mesh port,
	// for enrolling nodes. Methods then decide by PeerOf.
	Anonymous bool
	// Grace is how long after its end a certificate still passes, with
	// Peer.Expired set, so that it can be renewed; nil means not at all.
	Grace func() time.Duration
	// Record is asked last and for mgmt and admin peers only: whether the
	// serial is on record. It must bound its own time.
	Record func(Peer) error
}

// ServerTLS is the configuration of a listener: TLS 1.3, no session tickets,
// one of the given protocols agreed on, and the peer checked by p.
func (n *Node) ServerTLS(p Policy, alpn ...string) *tls.Config {
	auth := tls.RequireAnyClientCert // the chain is verified in VerifyConnection
	if p.Anonymous {
		auth = tls.RequestClientCert
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             alpn,
		SessionTicketsDisabled: true,
		ClientAuth:             auth,
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			// A client that offers no protocol at all would see who is here: port
			// scanners do that.
			if len(h.SupportedProtos) == 0 {
				return nil, errNoProtocol
			}
			return n.certificate(), nil
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			if !slices.Contains(alpn, cs.NegotiatedProtocol) {
				return errNoProtocol
			}
			if len(cs.PeerCertificates) == 0 && p.Anonymous && cs.NegotiatedProtocol == ProtoGRPC {
				return nil
			}
			return p.check(n, cs)
		},
	}
}

var errNoProtocol = fmt.Errorf("identity: no protocol agreed on: %w", mesh.ErrDenied)

func (p Policy) check(n *Node, cs tls.ConnectionState) error {
	var grace time.Duration
	if p.Grace != nil {
		grace = p.Grace()
	}
	peer, err := verifyChain(cs.PeerCertificates, n.Roots(), x509.ExtKeyUsageClientAuth, time.Now(), grace)
	if err != nil {
		return err
	}
	if peer.Expired && cs.NegotiatedProtocol != ProtoGRPC {
		return denied(peer.Leaf, "it ended at "+stamp(peer.Leaf.NotAfter))
	}
	if peer.Mesh != n.Identity().Mesh {
		return denied(peer.Leaf, "it is of another mesh")
	}
	if err := p.Revocations.Check(peer); err != nil {
		return err
	}
	if p.Accept == nil {
		return denied(peer.Leaf, "this listener admits nobody")
	}
	if err := p.Accept(cs.NegotiatedProtocol, peer); err != nil {
		return err
	}
	if p.Record != nil && (peer.Role == mesh.RoleMgmt || peer.Role == mesh.RoleAdmin) {
		return p.Record(peer)
	}
	return nil
}

// ClientTLS is the configuration of a dialer that speaks alpn with expect and
// with nobody else; an empty expect.ID stands for any peer of the role.
func (n *Node) ClientTLS(expect mesh.Identity, revs *Revocations, alpn string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{alpn},
		InsecureSkipVerify: true, // identities are URIs, not host names: VerifyConnection checks them
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return n.certificate(), nil
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			if cs.NegotiatedProtocol != alpn {
				return fmt.Errorf("identity: the server does not speak %s: %w", alpn, mesh.ErrDenied)
			}
			peer, err := verifyChain(cs.PeerCertificates, n.Roots(), x509.ExtKeyUsageServerAuth, time.Now(), 0)
			if err != nil {
				return err
			}
			if err := expected(peer, expect); err != nil {
				return err
			}
			return revs.Check(peer)
		},
	}
}

func expected(p Peer, want mesh.Identity) error {
	if p.Mesh != want.Mesh || p.Role != want.Role || want.ID != "" && p.ID != want.ID {
		return denied(p.Leaf, fmt.Sprintf("it is for %s, expected %s", p.Identity, want))
	}
	return nil
}
