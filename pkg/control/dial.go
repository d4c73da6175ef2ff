package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// MaxMessage bounds one message of these services, either way, in bytes.
	MaxMessage = 1 << 20
	// MaxUnauthenticated bounds what Enrollment reads, in bytes.
	MaxUnauthenticated = 64 << 10
	// tryTimeout bounds one attempt at one address.
	tryTimeout = 10 * time.Second
)

// DialFunc opens a TCP connection; tests put a breakable link here.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// link is one authenticated connection to a management server. It is dialled
// here and not by gRPC, so that an unreachable server, a wrong one and one that
// refuses this node are told apart.
type link struct {
	*grpc.ClientConn
	Peer identity.Peer
	conn *alertConn
}

func (l *link) Close() error {
	// The connection may be closed by gRPC already.
	return errors.Join(l.ClientConn.Close(), ignoreClosed(l.conn.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// connect dials addr and authenticates the server with cfg. It returns
// ErrUnavailable when nothing usable answers and ErrDenied when the server is
// not the one expected.
func connect(ctx context.Context, dial DialFunc, addr string, cfg *tls.Config, limit int) (*link, error) {
	raw, err := dialShuffled(ctx, dial, addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", addr, mesh.ErrUnavailable, err)
	}
	alerts := &alertConn{Conn: tls.Client(raw, cfg)}
	l, err := handshake(ctx, alerts, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, errors.Join(err, ignoreClosed(raw.Close())))
	}
	return l, nil
}

func handshake(ctx context.Context, c *alertConn, limit int) (*link, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
			return nil, fmt.Errorf("%w: %w", mesh.ErrDenied, err)
		}
		if errors.Is(err, mesh.ErrDenied) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: TLS: %w", mesh.ErrUnavailable, err)
	}
	cs := c.ConnectionState()
	if cs.NegotiatedProtocol != identity.ProtoGRPC {
		return nil, fmt.Errorf("%w: the server does not speak %s", mesh.ErrUnavailable, identity.ProtoGRPC)
	}
	peer, err := identity.PeerOf(cs)
	if err != nil {
		return nil, err
	}
	cc, err := grpc.NewClient("passthrough:///"+c.RemoteAddr().String(),
		grpc.WithContextDialer(once(c)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // c is TLS already
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit), grpc.MaxCallSendMsgSize(limit)),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0))
	if err != nil {
		return nil, fmt.Errorf("control: make client: %w", err)
	}
	return &link{ClientConn: cc, Peer: peer, conn: c}, nil
}

// once hands c to gRPC for its first connection and refuses a second: a lost
// link ends what runs on it, and the next attempt chooses an address anew.
func once(c net.Conn) func(context.Context, string) (net.Conn, error) {
	var used atomic.Bool
	return func(context.Context, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, fmt.Errorf("control: connection lost: %w", mesh.ErrUnavailable)
		}
		return c, nil
	}
}

// dialShuffled resolves the host of addr now and tries its addresses in random
// order, so that nodes spread over a name's records.
func dialShuffled(ctx context.Context, dial DialFunc, addr string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
	var errs []error
	for i, ip := range ips {
		c, err := dialOne(ctx, dial, ip, port, len(ips)-i)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// dialOne leaves a share of ctx's time for the addresses after this one.
func dialOne(ctx context.Context, dial DialFunc, ip netip.Addr, port string, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return dial(ctx, "tcp", net.JoinHostPort(ip.Unmap().String(), port))
}

// alertConn notes a TLS alert from the server: with TLS 1.3 a client learns
// that its certificate was refused only when it first reads.
type alertConn struct {
	*tls.Conn
	alert atomic.Pointer[net.OpError]
}

func (c *alertConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		c.alert.CompareAndSwap(nil, op)
	}
	return n, err
}

// explain turns the error of a call on l into one of ours.
func (l *link) explain(err error) error {
	if err == nil {
		return nil
	}
	if a := l.conn.alert.Load(); a != nil {
		return fmt.Errorf("the server refused this node's certificate (%v): %w", a.Err, mesh.ErrDenied)
	}
	return rpcstatus.From(err)
}
