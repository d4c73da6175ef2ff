package entry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// dial connects to a core at one of its present addresses, in their order, and
// makes sure that it is that core. The connection ends when it is revoked.
func (s *Server) dial(ctx context.Context, id string) (net.Conn, error) {
	t, ok := s.cores.target(id)
	if !ok {
		return nil, fmt.Errorf("entry: dial core %s: it is not known: %w", id, mesh.ErrNotFound)
	}
	m := s.Node.Identity().Mesh
	if err := usable(m, t); err != nil {
		return nil, err
	}
	who, err := expected(m, t)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, a := range t.Addresses {
		c, err := s.dialOne(ctx, a, who, len(t.Addresses)-i)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("entry: dial core %s: %w", id, err))
	}
	return nil, errors.Join(errs...)
}

// dialOne leaves time for the addresses after it.
func (s *Server) dialOne(ctx context.Context, a netip.AddrPort, who mesh.Identity, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	d := net.Dialer{KeepAliveConfig: relay.KeepAlive()}
	d.SetMultipathTCP(false)
	raw, err := d.DialContext(ctx, "tcp", a.String())
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, s.Node.ClientTLS(who, s.Revocations, relay.ALPN))
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("at %v: %w", a, err), raw.Close())
	}
	peer, err := identity.PeerOf(c.ConnectionState())
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	release := s.Revocations.Track(peer, func() { s.cutCore(who.ID) })
	return &coreConn{Conn: c, release: release}, nil
}

// coreConn no longer waits for a revocation once it is closed.
type coreConn struct {
	*tls.Conn
	release func()
}

func (c *coreConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// cutCore ends the sessions with a core that may no longer be spoken to.
func (s *Server) cutCore(id string) {
	if p := s.pool.Load(); p != nil {
		p.CloseKey(id, relay.CodeRevoked)
	}
}

// TargetChanged takes news of a target between lookups. It is meant for
// gateway.Config.OnTarget.
func (s *Server) TargetChanged(t mesh.Target, deleted bool) {
	switch {
	case deleted:
		s.cores.forget(t.ID)
		s.cutCore(t.ID)
	case t.State == mesh.CoreRevoked:
		s.cores.put([]mesh.Target{t})
		s.cutCore(t.ID)
	default:
		s.cores.put([]mesh.Target{t})
	}
}
