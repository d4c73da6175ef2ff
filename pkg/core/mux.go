package core

import (
	"bufio"
	"context"
	"net"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/clientproto/muxcool"
)

// muxName is the name that a client asks for when it means mux.cool and its
// protocol has no command for it.
const muxName = "v1.mux.cool"

// mux serves many streams and flows in one connection.
func (h *handler) mux(ctx context.Context, g guest, c carrier, br *bufio.Reader) error {
	return muxcool.Serve(ctx, br, c, opener{h, g}, h.limits.Requests)
}

// opener reaches destinations for what comes multiplexed.
type opener struct {
	handler *handler
	guest   guest
}

// TCP implements muxcool.Opener.
func (o opener) TCP(ctx context.Context, to clientproto.Destination) (net.Conn, error) {
	d, err := destinationOf(to)
	if err != nil {
		return nil, err
	}
	c, err := o.handler.dial(ctx, o.guest, d)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// UDP implements muxcool.Opener.
func (o opener) UDP(context.Context) (muxcool.Flow, error) {
	f, err := o.handler.listen(o.guest)
	if err != nil {
		return nil, err
	}
	return f, nil
}
