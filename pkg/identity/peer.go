package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Peer is who is at the other end of a connection.
type Peer struct {
	mesh.Identity
	Leaf   *x509.Certificate
	Serial string    // of the leaf, decimal
	Issued time.Time // when the leaf was signed: NotBefore plus mesh.Backdate
	// Issuers are the serials of the CA certificates the peer sent, so that a
	// revoked intermediate takes its leaves with it.
	Issuers []string
	// Expired: the leaf's time is over, within the grace period for renewal.
	// Such a peer may renew and nothing else.
	Expired bool
}

// KeyHash names the peer's public key as mesh.CertRecord does.
func (p Peer) KeyHash() string { return KeyHash(p.Leaf.PublicKey) }

// KeyHash is base64url(SHA-256) of the key's SubjectPublicKeyInfo, or "" for
// something that is no public key.
func KeyHash(pub any) string {
	h, err := mesh.KeyHash(pub)
	if err != nil {
		return ""
	}
	return h
}

// PeerOf returns who the other end of an established connection is. The
// connection must come from a configuration of this package, whose handshake
// has verified the chain. A peer whose certificate has expired is refused, also
// on a connection that was opened before. It returns ErrDenied.
func PeerOf(cs tls.ConnectionState) (Peer, error) {
	p, err := RenewingPeerOf(cs)
	if err == nil && p.Expired {
		return Peer{}, denied(p.Leaf, "its certificate ended at "+stamp(p.Leaf.NotAfter))
	}
	return p, err
}

// RenewingPeerOf is PeerOf for the Renewal service alone: it also returns peers
// with Expired set, which the handshake admitted within the grace period.
func RenewingPeerOf(cs tls.ConnectionState) (Peer, error) {
	if !cs.HandshakeComplete {
		return Peer{}, fmt.Errorf("identity: read peer: handshake not complete: %w", mesh.ErrDenied)
	}
	return readPeer(cs.PeerCertificates, time.Now())
}

// readPeer reads the leaf. It verifies no signature.
func readPeer(certs []*x509.Certificate, now time.Time) (Peer, error) {
	if len(certs) == 0 {
		return Peer{}, fmt.Errorf("identity: read peer: no certificate: %w", mesh.ErrDenied)
	}
	leaf := certs[0]
	id, err := identityOf(leaf)
	if err != nil {
		return Peer{}, err
	}
	p := Peer{
		Identity: id,
		Leaf:     leaf,
		Serial:   leaf.SerialNumber.String(),
		Issued:   leaf.NotBefore.Add(mesh.Backdate),
		Expired:  now.After(leaf.NotAfter),
	}
	for _, c := range certs[1:] {
		p.Issuers = append(p.Issuers, c.SerialNumber.String())
	}
	return p, nil
}

// identityOf reads the one URI name of a leaf.
func identityOf(leaf *x509.Certificate) (mesh.Identity, error) {
	switch {
	case leaf.IsCA:
		return mesh.Identity{}, denied(leaf, "it is a CA certificate")
	case len(leaf.URIs) != 1:
		return mesh.Identity{}, denied(leaf, fmt.Sprintf("it carries %d URI names, want one", len(leaf.URIs)))
	}
	id, err := mesh.ParseIdentity(leaf.URIs[0].String())
	if err != nil {
		// The kind is ErrDenied: the fault is the peer's, not the caller's input.
		return mesh.Identity{}, denied(leaf, fmt.Sprintf("its name is no identity of a mesh: %v", err))
	}
	return id, nil
}

func denied(leaf *x509.Certificate, why string) error {
	return fmt.Errorf("identity: check certificate %v: %s: %w", leaf.SerialNumber, why, mesh.ErrDenied)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

type peerKey struct{}

// WithPeer adds the verified peer to a context.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerFromContext returns the peer that WithPeer added.
func PeerFromContext(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
