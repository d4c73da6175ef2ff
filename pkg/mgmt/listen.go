package mgmt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// listeners are all TCP ports of the server but etcd's. Those that are not
// configured are nil.
type listeners struct {
	mesh, admin, gateway, metrics net.Listener
}

// listen binds every port before anything is changed, so that a port in use
// costs nothing.
func listen(ctx context.Context, c Config) (*listeners, error) {
	l := new(listeners)
	var errs []error
	for _, x := range []struct {
		key, at string
		to      *net.Listener
	}{
		{"listen", c.MeshListen, &l.mesh},
		{"admin-listen", c.AdminListen, &l.admin},
		{"gateway-listen", c.GatewayListen, &l.gateway},
		{"metrics-listen", c.MetricsListen, &l.metrics},
	} {
		if x.at == "" {
			continue
		}
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", x.at)
		if err != nil {
			errs = append(errs, listenError(x.key, x.at, err))
			continue
		}
		*x.to = ln
	}
	if err := errors.Join(errs...); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *listeners) close() {
	for _, ln := range []net.Listener{l.mesh, l.admin, l.gateway, l.metrics} {
		if ln != nil {
			ln.Close() // its part may have closed it already
		}
	}
}

// listenError tells what passes (a port in use) from what does not.
func listenError(key, at string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return mesh.WithHint(fmt.Errorf("mgmt: %s %s: the port is in use: %w", key, at, mesh.ErrUnavailable),
			"find who has it with `ss -ltnp`, or set "+key+" to another port")
	case errors.Is(err, syscall.EACCES):
		return setupf("use a port from 1024 on, or give the service CAP_NET_BIND_SERVICE", "%s %s: not permitted", key, at)
	}
	return setupf("set "+key+" to an address of this machine", "%s %s: %w", key, at, err)
}
