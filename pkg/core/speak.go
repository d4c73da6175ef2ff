package core

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// speak serves a client that recognise knows, to its end.
func (h *handler) speak(ctx context.Context, p mesh.Protocol, over mesh.Transport, g guest, c carrier, br *bufio.Reader) error {
	h.count(mesh.Offer{Protocol: p, Transport: over}.String())
	switch p {
	case mesh.ProtocolVLESS:
		q, err := clientproto.ReadVLESS(br)
		if err != nil {
			return err
		}
		return h.request(ctx, g, q, reply(c, clientproto.AppendVLESSReply(nil)), br, vlessFraming(q.To))
	case mesh.ProtocolTrojan:
		q, err := clientproto.ReadTrojan(br)
		if err != nil {
			return err
		}
		return h.request(ctx, g, q, c, br, trojanFraming)
	case mesh.ProtocolSOCKS:
		return h.socks(ctx, g, c, br)
	}
	return fmt.Errorf("core: protocol %q: %w", p, mesh.ErrInvalid)
}

// request does what a client of VLESS or Trojan asked for.
func (h *handler) request(ctx context.Context, g guest, q clientproto.Request, c carrier, br *bufio.Reader, f framing) error {
	g.lease.shown.Store(true)
	if err := g.settle(); err != nil {
		return err
	}
	switch q.Command {
	case clientproto.CommandUDP:
		return h.datagrams(ctx, g, c, br, f)
	case clientproto.CommandMux:
		return h.mux(ctx, g, c, br)
	}
	if q.To.Name == muxName {
		return h.mux(ctx, g, c, br)
	}
	to, err := destinationOf(q.To)
	if err != nil {
		return err
	}
	dst, err := h.dial(ctx, g, to)
	if err != nil {
		return err
	}
	return h.tunnel(ctx, c, br, dst)
}

// tunnel joins a client to its destination, what br has of it first.
func (h *handler) tunnel(ctx context.Context, c carrier, br *bufio.Reader, dst *outbound) error {
	early, err := br.Peek(br.Buffered())
	if err == nil && len(early) > 0 {
		_, err = dst.Write(early)
	}
	if err != nil {
		_ = dst.Close() // it is lost
		return err
	}
	return h.join(ctx, c, dst)
}

// socks serves a client of SOCKS5, which has shown nothing yet.
func (h *handler) socks(ctx context.Context, g guest, c carrier, br *bufio.Reader) error {
	ok, err := h.socksLogin(g, c, br)
	if err != nil || !ok {
		return err
	}
	g.lease.shown.Store(true)
	if err := g.settle(); err != nil {
		return err
	}
	answer := func(code clientproto.SOCKSReply) error {
		_, err := c.Write(clientproto.AppendSOCKSReply(nil, code))
		return err
	}
	asked, err := clientproto.ReadSOCKSRequest(br)
	if errors.Is(err, mesh.ErrInvalid) {
		return answer(clientproto.SOCKSCommand)
	}
	if err != nil {
		return err
	}
	to, err := destinationOf(asked)
	if err != nil {
		return answer(clientproto.SOCKSFailed)
	}
	dst, err := h.dial(ctx, g, to)
	if err != nil {
		return answer(socksReply(err))
	}
	if err := answer(clientproto.SOCKSOK); err != nil {
		_ = dst.Close() // nothing was sent on it
		return err
	}
	return h.tunnel(ctx, c, br, dst)
}

// socksLogin says whether the client is the device (RFC 1929).
func (h *handler) socksLogin(g guest, c carrier, br *bufio.Reader) (bool, error) {
	password, err := clientproto.ReadSOCKSGreeting(br)
	if err != nil {
		return false, err
	}
	if _, err := c.Write(clientproto.AppendSOCKSMethod(nil, password)); err != nil || !password {
		return false, err
	}
	user, secret, err := clientproto.ReadSOCKSPassword(br)
	if err != nil {
		return false, err
	}
	same := subtle.ConstantTimeCompare([]byte(user), []byte(g.device.ID)) == 1
	ok := g.device.Verifiers.CheckHTTP(g.device.ID, secret) && same
	_, err = c.Write(clientproto.AppendSOCKSVerdict(nil, ok))
	return ok, err
}

// socksReply says why a destination cannot be had.
func socksReply(err error) clientproto.SOCKSReply {
	switch {
	case errors.Is(err, mesh.ErrDenied):
		return clientproto.SOCKSDenied
	case isTimeout(err):
		return clientproto.SOCKSExpired
	case errors.Is(err, mesh.ErrUnavailable):
		return clientproto.SOCKSFailed
	}
	return clientproto.SOCKSUnreachable
}

// destinationOf reads what a client named strictly. It returns ErrInvalid.
func destinationOf(d clientproto.Destination) (destination, error) {
	return parseDestination(d.String())
}
