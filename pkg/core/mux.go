package core

import (
	"bufio"
	"context"
	"net"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/clientproto/muxcool"
	"github.com/meshctl/meshctl/pkg/relay"
)

// muxName is the name that a client asks for when it means mux.cool and its
// protocol has no command for it.
const muxName = "v1.mux.cool"

// mux serves many streams and flows in one connection.
func (h *handler) mux(ctx context.Context, g guest, c carrier, br *bufio.Reader) error {
	return muxcool.Serve(ctx, br, cuttable{c, func() error {
		if ctx.Err() != nil {
			relay.Abort(c, resetCode(ctx)) // not to be taken for an end in good order
			return nil
		}
		return c.Close()
	}}, opener{h, g}, h.limits.Requests)
}

// cuttable is a carrier that is closed in a way of its own.
type cuttable struct {
	carrier
	close func() error
}

// Close implements io.Closer.
func (c cuttable) Close() error { return c.close() }

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
