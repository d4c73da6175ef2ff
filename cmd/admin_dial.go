package cmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

const (
	adminDialTime = 5 * time.Second // per address
	adminALPN     = "h2"
)

// adminLink is the connection to the server and what is known of why it fails.
type adminLink struct {
	*grpc.ClientConn
	where string
	fault atomic.Pointer[error] // why the last attempt to connect failed
}

// dialAdmin chooses the way to the server: the socket that was named, the
// addresses that were named, the default socket when there is one, what login
// left behind. Nothing is dialled before the first call.
func dialAdmin(cfg adminConfig, named bool) (*adminLink, error) {
	switch socket := mgmt.DefaultConfig().Socket(); {
	case cfg.Socket != "":
		return dialAdminSocket(cfg.Socket)
	case !named && isSocket(socket):
		return dialAdminSocket(socket)
	}
	return dialAdminServer(cfg.Server)
}

func isSocket(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode()&os.ModeSocket != 0
}

func dialAdminSocket(path string) (*adminLink, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, socketFault(path, err)
	}
	cc, err := admin.DialSocket(path)
	if err != nil {
		return nil, err
	}
	l := &adminLink{ClientConn: cc, where: path}
	return l, nil
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
	revs, err := identity.OpenRevocations("", node.Roots(), node.Identity().Mesh)
	if err != nil {
		return nil, err
	}
	l := &adminLink{where: strings.Join(addresses, ", ")}
	expect := mesh.Identity{Mesh: node.Identity().Mesh, Role: mesh.RoleMgmt}
	config := node.ClientTLS(expect, revs, adminALPN)
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := dialFirst(ctx, addresses, config)
		if err != nil {
			l.fault.Store(&err)
			return nil, err
		}
		return &watchedConn{Conn: conn, fault: &l.fault}, nil
	}
	// TLS happens in dial, which keeps the kind of its errors; gRPC would only
	// pass on their text.
	l.ClientConn, err = grpc.NewClient("passthrough:///mgmt", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", l.where, err)
	}
	return l, nil
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
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		err = errors.Join(err, raw.Close())
		if mesh.Kind(err) == nil {
			err = fmt.Errorf("%w: %w", err, mesh.ErrUnavailable)
		}
		return nil, fmt.Errorf("management server %s: %w", address, err)
	}
	return conn, nil
}

// watchedConn notes when the server refuses the certificate: with TLS 1.3 that
// shows on the first read only.
type watchedConn struct {
	net.Conn
	fault *atomic.Pointer[error]
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		refused := mesh.WithHint(fmt.Errorf("the server refused this administrator's certificate (%w): %w", op.Err, mesh.ErrDenied),
			"it may be revoked or not on record; ask an owner for a token, then: meshctl admin login")
		c.fault.Store(&refused)
	}
	return n, err
}

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
		if strings.HasPrefix(l.where, "/") && strings.Contains(err.Error(), "connection error") {
			return socketFault(l.where, err)
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
