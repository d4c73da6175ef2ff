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

// connect opens a stream to the first target that accepts. A core that refuses
// for good speaks for all of them; one that does not answer does not.
func (f *flow) connect(ctx context.Context, route mesh.Route, targets []mesh.Target) (*relay.Stream, Reason, error) {
	s := f.s
	header := relay.Header{ServerName: string(f.name), Device: string(route.Device), Trace: f.trace}
	if route.ForwardClientAddress {
		header.Client = f.client
	}
	s.cores.put(targets)
	reason, err := NoCore, errors.New("entry: no core is known for the route")
	for _, t := range s.cores.order(s.Node.Identity().Mesh, targets) {
		var st *relay.Stream
		st, err = s.openAt(ctx, t.ID, header)
		refused, isRefused := errors.AsType[*relay.RefusedError](err)
		switch {
		case err == nil:
			f.core = t.ID
			return st, "", nil
		case ctx.Err() != nil:
			return nil, ofEnd(context.Cause(ctx)), context.Cause(ctx)
		case isRefused:
			s.metrics.refusals.WithLabelValues(refused.Code.String()).Inc()
			reason = Refused
			if !refused.Retryable {
				return nil, reason, err
			}
		case errors.Is(err, context.DeadlineExceeded):
			reason = Timeout
		default:
			reason = NoCore
		}
	}
	return nil, reason, err
}

// openAt asks one core, and takes note of whether it answered.
func (s *Server) openAt(ctx context.Context, id string, h relay.Header) (*relay.Stream, error) {
	open, cancel := context.WithTimeout(ctx, s.OpenTimeout)
	defer cancel()
	st, err := s.pool.Load().Open(open, id, h)
	if _, refused := errors.AsType[*relay.RefusedError](err); err == nil || refused {
		if s.cores.heard(id) {
			s.Log.Info("core answered again", "core", id)
		}
	} else if ctx.Err() == nil && s.cores.silent(id, err) {
		s.Log.Warn("core did not answer", "core", id, "err", err)
	}
	return st, err
}

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
