package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// revocable is TLS to servers whose connections end when they are revoked, and
// before the certificate ends with which they were opened: a connection lasts
// for weeks, only the handshake checks, and servers refuse calls after that end.
type revocable struct {
	credentials.TransportCredentials
	revocations *identity.Revocations
	config      *tls.Config
}

func newRevocable(cfg *tls.Config, r *identity.Revocations) revocable {
	return revocable{credentials.NewTLS(cfg), r, cfg}
}

// lasts is how long a connection opened now may be used: to a moment in the last
// sixth of the certificate's life, when it has been renewed, and not to the same
// for each connection. The last twelfth is left for calls under way and clocks
// that differ. With one that was not renewed by then it is used to its end.
func (r revocable) lasts(now time.Time) (time.Duration, bool) {
	if r.config.GetClientCertificate == nil {
		return 0, false
	}
	c, err := r.config.GetClientCertificate(&tls.CertificateRequestInfo{Version: tls.VersionTLS13})
	if err != nil || c.Leaf == nil {
		return 0, false // the handshake says so
	}
	end := c.Leaf.NotAfter
	life := end.Sub(c.Leaf.NotBefore.Add(mesh.Backdate))
	if left := end.Sub(now) - life/12 - rand.N(max(life/12, 1)); left > 0 {
		return left, true
	}
	return max(end.Sub(now), 0), true
}

// dial reaches a server, but not with a certificate that has ended: none would
// answer, and gRPC would ask again every few seconds.
func (r revocable) dial(ctx context.Context, addr string) (net.Conn, error) {
	if left, ends := r.lasts(time.Now()); ends && left <= 0 {
		return nil, fmt.Errorf("gateway: this node's certificate has ended: %w", mesh.ErrUnavailable)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

func (r revocable) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	lasts, ends := r.lasts(time.Now()) // of the certificate now, or an older one than is shown
	conn, info, err := r.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	t, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("gateway: authenticate server: no TLS but %T", info), conn.Close())
	}
	peer, err := identity.PeerOf(t.State)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	// Whoever uses the connection sees it closed; raw.Close itself waits for nothing.
	release := r.revocations.Track(peer, func() { raw.Close() })
	if ends {
		untrack, old := release, time.AfterFunc(lasts, func() { raw.Close() })
		release = func() { old.Stop(); untrack() }
	}
	return &trackedConn{conn, release}, info, nil
}

func (r revocable) Clone() credentials.TransportCredentials {
	return revocable{r.TransportCredentials.Clone(), r.revocations, r.config}
}

type trackedConn struct {
	net.Conn
	release func()
}

func (c *trackedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
