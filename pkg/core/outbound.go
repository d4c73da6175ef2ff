package core

import (
	"context"
	"net"

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
	done func()
}

// dial connects a guest to a destination. It must be ended by join or drop. It
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
	return &outbound{c, func() { h.tunnels.give(g.device.ID) }}, nil
}

// drop ends a connection on which nothing was sent.
func (o *outbound) drop() {
	_ = o.Close()
	o.done()
}

// join copies between a client and its destination until both have ended. The
// bytes are counted at the stream, as the client sent them.
func (h *handler) join(ctx context.Context, client carrier, dst *outbound) error {
	defer dst.done()
	h.dialer.vigil.Add(dst.TCPConn)
	defer h.dialer.vigil.Remove(dst.TCPConn)
	return relay.Join(ctx, client, dst.TCPConn, nil).Err
}
