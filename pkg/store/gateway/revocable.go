package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/meshctl/meshctl/pkg/identity"
)

// revocable is TLS to servers whose connections end when they are revoked. A
// connection lasts for weeks, and only the handshake checks.
type revocable struct {
	credentials.TransportCredentials
	revocations *identity.Revocations
}

func newRevocable(cfg *tls.Config, r *identity.Revocations) revocable {
	return revocable{credentials.NewTLS(cfg), r}
}

func (r revocable) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
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
	return &trackedConn{conn, release}, info, nil
}

func (r revocable) Clone() credentials.TransportCredentials {
	return revocable{r.TransportCredentials.Clone(), r.revocations}
}

type trackedConn struct {
	net.Conn
	release func()
}

func (c *trackedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
