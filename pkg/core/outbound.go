package core

import (
	"context"
	"net"
	"sync"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// guest is a device on a stream that has shown its credentials.
type guest struct {
	lease  *lease
	device mesh.ServedDevice
	// settle ends the time in which the client has to say what it wants.
	settle func() error
}

// outbound is a connection to a destination that counts for a device.
type outbound struct {
	*net.TCPConn
	once sync.Once
	done func()
}

// dial connects a guest to a destination. The connection must be closed. It
// returns what dialer.dial does, and ErrUnavailable when too many are open.
func (h *handler) dial(ctx context.Context, g guest, to destination) (*outbound, error) {
	if err := h.tunnels.take(g.device.ID); err != nil {
		h.metrics.dialled(err)
		return nil, err
	}
	c, err := h.dialer.dial(ctx, to)
	h.metrics.dialled(err)
	if err != nil {
		h.tunnels.give(g.device.ID)
		return nil, err
	}
	h.dialer.vigil.Add(c)
	return &outbound{TCPConn: c, done: func() {
		h.dialer.vigil.Remove(c)
		h.tunnels.give(g.device.ID)
	}}, nil
}

// Close implements net.Conn. It may be called again.
func (o *outbound) Close() error {
	o.once.Do(o.done)
	return o.TCPConn.Close()
}

// join copies between a client and its destination until both have ended, and
// closes the destination. The bytes are counted at the stream, as the client
// sent them.
func (h *handler) join(ctx context.Context, client carrier, dst *outbound) error {
	defer dst.Close()
	return relay.Join(ctx, client, dst.TCPConn, nil).Err
}
