package cmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

const adminDialTime = 5 * time.Second // per address

// adminLink is the connection to the server and what is known of why it fails.
type adminLink struct {
	*grpc.ClientConn
	where string
	node  *identity.Node        // nil on a socket
	fault atomic.Pointer[error] // why the last attempt to connect failed
	// renewNow: a server said that the certificate should be replaced soon.
	renewNow atomic.Bool
}

// dialAdmin chooses the way to the server: the socket that was named, the
// addresses that were named, the default socket when there is one, what login
// left behind.
func dialAdmin(ctx context.Context, cfg adminConfig, named bool) (*adminLink, error) {
	switch socket := mgmt.DefaultConfig().Socket(); {
	case cfg.Socket != "":
		return dialAdminSocket(ctx, cfg.Socket)
	case !named && isSocket(socket):
		return dialAdminSocket(ctx, socket)
	}
	l, err := dialAdminServer(cfg.Server)
	if err != nil && !named && holdsServer(mgmt.DefaultConfig().Dir) {
		// Nobody has logged in where the server runs that does not run now.
		return dialAdminSocket(ctx, mgmt.DefaultConfig().Socket())
	}
	return l, err
}

// holdsServer says whether the data folder of a server is here, and for this user.
func holdsServer(dir string) bool {
	_, err := os.ReadDir(dir)
	return err == nil
}

func isSocket(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode()&os.ModeSocket != 0
}

// dialAdminSocket tries the socket once, since the kernel says better than gRPC
// why nobody answers.
func dialAdminSocket(ctx context.Context, path string) (*adminLink, error) {
	try, err := (&net.Dialer{Timeout: adminDialTime}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, socketFault(path, err)
	}
	if err := try.Close(); err != nil {
		return nil, socketFault(path, err)
	}
	cc, err := admin.DialSocket(path)
	if err != nil {
		return nil, err
	}
	return &adminLink{ClientConn: cc, where: path}, nil
}

func socketFault(path string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return mesh.WithHint(fmt.Errorf("socket %s: only root and the server's own user may use it: %w", path, mesh.ErrDenied),
			"run it as root, or log in: meshctl admin login")
	}
	return mesh.WithHint(fmt.Errorf("no management server answers at %s: %w", path, mesh.ErrUnavailable),
		"start it with `meshctl mgmt serve`, or name its socket with --socket")
}

// dialAdminServer uses the identity that login stored.
func dialAdminServer(addresses []string) (*adminLink, error) {
	node, err := loadAdmin()
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, mesh.WithHint(fmt.Errorf("no address of a management server is known: %w", mesh.ErrInvalid),
			"name one with --server HOST:PORT")
	}
	l := &adminLink{where: strings.Join(addresses, ", "), node: node}
	expect := mesh.Identity{Mesh: node.Identity().Mesh, Role: mesh.RoleMgmt}
	config := node.ClientTLS(expect, nil, identity.ProtoGRPC)
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := dialFirst(ctx, addresses, config)
		if err != nil {
			l.fault.Store(&err)
			return nil, err
		}
		l.fault.Store(nil)
		return conn, nil
	}
	// TLS happens in dial, which keeps the kind of its errors; gRPC would only
	// pass on their text.
	l.ClientConn, err = grpc.NewClient("passthrough:///mgmt", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(l.listen))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", l.where, err)
	}
	return l, nil
}

// listen notes what a server says of the certificate beside its answer.
func (l *adminLink) listen(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var header metadata.MD
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Header(&header))...)
	if len(header.Get(admin.RenewHeader)) > 0 {
		l.renewNow.Store(true)
	}
	return err
}

// dialFirst returns a connection to the first address that answers.
func dialFirst(ctx context.Context, addresses []string, config *tls.Config) (net.Conn, error) {
	var errs []error
	for _, a := range addresses {
		conn, err := dialTLS(ctx, a, config)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func dialTLS(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, adminDialTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("management server %s does not answer: %w: %w", address, err, mesh.ErrUnavailable)
	}
	conn, err := secure(ctx, tls.Client(raw, config))
	if err != nil {
		raw.Close() // err says what matters
		return nil, fmt.Errorf("management server %s: %w", address, err)
	}
	return conn, nil
}

func secure(ctx context.Context, c *tls.Conn) (net.Conn, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("it took the connection and did not answer in time: %w", mesh.ErrUnavailable)
		}
		if mesh.Kind(err) == nil {
			err = fmt.Errorf("%w: %w", err, mesh.ErrUnavailable)
		}
		return nil, err
	}
	return heard(ctx, c)
}

// heard waits for the server's first byte, which on h2 comes unasked. With TLS
// 1.3 a client learns only by reading that its certificate was refused, and a
// write before that could lose the reason.
func heard(ctx context.Context, c *tls.Conn) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		if err := c.SetReadDeadline(end); err != nil {
			return nil, err
		}
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
			return nil, mesh.WithHint(fmt.Errorf("it refused this administrator's certificate (%w): %w", op.Err, mesh.ErrDenied),
				"it may be revoked or not on record; ask an owner for a token, then: meshctl admin login --again")
		}
		return nil, fmt.Errorf("it closed the connection: %w: %w", err, mesh.ErrUnavailable)
	}
	return &heardConn{Conn: c, rest: io.MultiReader(bytes.NewReader(first), c)}, c.SetReadDeadline(time.Time{})
}

// heardConn gives back what was read of it.
type heardConn struct {
	net.Conn
	rest io.Reader
}

func (c *heardConn) Read(p []byte) (int, error) { return c.rest.Read(p) }

// explain adds to an error of a call what the link knows.
func (l *adminLink) explain(err error, need mesh.AdminRole) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return mesh.WithHint(fmt.Errorf("%s did not answer in time: %w", l.where, mesh.ErrUnavailable),
			"look at the server with `meshctl mgmt status`, or allow more with --timeout")
	case errors.Is(err, mesh.ErrUnavailable):
		if f := l.fault.Load(); f != nil {
			return mesh.WithHint(*f, cmpHint(*f, "check the address, or name another server with --server HOST:PORT"))
		}
	case errors.Is(err, mesh.ErrDenied) && mesh.Hint(err) == "":
		return mesh.WithHint(err, "this needs the role "+string(need)+" or more; an owner can grant it: meshctl admin administrator set NAME --role "+string(need))
	}
	return err
}

func cmpHint(err error, otherwise string) string {
	if h := mesh.Hint(err); h != "" {
		return h
	}
	return otherwise
}
