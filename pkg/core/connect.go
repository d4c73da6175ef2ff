package core

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"

	"github.com/meshctl/meshctl/pkg/relay"
)

// established answers a CONNECT (RFC 9110, 9.3.6); no header and no body may
// follow that a client could take for the destination's bytes.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect opens a tunnel and leaves it to the stream's own goroutine, so that
// nothing of the request stays in memory while the tunnel is open.
func (h *handler) connect(w http.ResponseWriter, r *http.Request, g guest) {
	to, err := parseDestination(r.URL.Host)
	if err != nil {
		refuse(w, err)
		return
	}
	ctx := r.Context()
	if r.ProtoMajor == 1 {
		// net/http ends the request's context when the client ends its side, but it
		// may still wait for an answer: a tunnel ends with its connections.
		ctx = context.WithoutCancel(ctx)
	}
	dst, err := h.dial(ctx, g, to)
	if err != nil {
		refuse(w, err)
		return
	}
	if r.ProtoMajor == 2 {
		h.connectH2(w, r, dst)
		return
	}
	client, early, err := hijack(w)
	if err != nil {
		_ = dst.Close() // nothing was sent on it
		h.log.Debug("tunnel not opened", "err", err)
		return
	}
	m, ok := client.NetConn().(*metered)
	if err := begin(client, dst, early); err != nil || !ok {
		_ = dst.Close() // nothing was sent on it
		relay.Abort(client, relay.CodePeerReset)
		_ = client.Close() // the stream's owner waits for this
		return
	}
	m.jobs <- func(ctx context.Context) error { return h.join(ctx, client, dst) }
}

// hijack takes the client's TLS away from net/http, and what was read of it
// beyond the request.
func hijack(w http.ResponseWriter) (*tls.Conn, []byte, error) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	l, ok := c.(*looked)
	if !ok {
		return nil, nil, net.ErrClosed
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err != nil {
		return nil, nil, err
	}
	t, ok := l.halfConn.(*tls.Conn)
	if !ok {
		return nil, nil, net.ErrClosed
	}
	return t, slices.Concat(early, l.rest()), nil
}

// begin tells the client that the tunnel is open and passes on what it sent
// without waiting for that.
func begin(client, dst net.Conn, early []byte) error {
	if _, err := client.Write([]byte(established)); err != nil {
		return err
	}
	if len(early) == 0 {
		return nil
	}
	_, err := dst.Write(early)
	return err
}

// closeTunnel answers a CONNECT to the hidden host by whoever has credentials:
// the browser has learned that they are right, and there is nothing to see.
func closeTunnel(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.WriteHeader(http.StatusOK)
		return
	}
	c, _, err := hijack(w)
	if err != nil {
		return // the client is gone
	}
	defer c.Close()
	_, _ = c.Write([]byte(established)) // the connection ends either way
}
