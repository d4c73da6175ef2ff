package core

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"github.com/meshctl/meshctl/pkg/relay"
)

// established answers a CONNECT (RFC 9110, 9.3.6); no header and no body may
// follow that a client could take for the destination's bytes.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// tunnel is a CONNECT that was answered: what is left is to copy.
type tunnel struct {
	client *tls.Conn
	dst    *net.TCPConn
}

// connect opens a tunnel and leaves it to the stream's own goroutine, so that
// nothing of the request stays in memory while the tunnel is open.
func (h *handler) connect(w http.ResponseWriter, r *http.Request) {
	to, err := parseDestination(r.URL.Host)
	if err != nil {
		refuse(w, err)
		return
	}
	// net/http ends the request's context when the client ends its side, but it
	// may still wait for an answer: a tunnel ends with its connections.
	dst, err := h.dialer.dial(context.WithoutCancel(r.Context()), to)
	h.metrics.dialled(err)
	if err != nil {
		refuse(w, err)
		return
	}
	client, buf, err := hijack(w)
	if err != nil {
		_ = dst.Close() // nothing was sent on it
		h.log.Debug("tunnel not opened", "err", err)
		return
	}
	m, ok := client.NetConn().(*metered)
	if err := begin(client, dst, buf); err != nil || !ok {
		_ = dst.Close()
		resetClient(client)
		_ = client.Close() // the stream's owner waits for this
		return
	}
	m.tunnels <- tunnel{client, dst}
}

func hijack(w http.ResponseWriter) (*tls.Conn, *bufio.Reader, error) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t, ok := c.(*tls.Conn)
	if !ok {
		return nil, nil, net.ErrClosed
	}
	return t, rw.Reader, nil
}

// begin tells the client that the tunnel is open and passes on what it sent
// without waiting for that.
func begin(client, dst net.Conn, buf *bufio.Reader) error {
	if _, err := client.Write([]byte(established)); err != nil {
		return err
	}
	early, err := buf.Peek(buf.Buffered())
	if err != nil {
		return err
	}
	if len(early) > 0 {
		_, err = dst.Write(early)
	}
	return err
}

// resetClient ends a tunnel so that it cannot be taken for one that finished.
func resetClient(c *tls.Conn) {
	if m, ok := c.NetConn().(*metered); ok {
		m.Stream.Reset(relay.CodePeerReset)
	}
}

// closeTunnel answers a CONNECT to the hidden host by whoever has credentials:
// the browser has learned that they are right, and there is nothing to see.
func closeTunnel(w http.ResponseWriter) {
	c, _, err := hijack(w)
	if err != nil {
		return // the client is gone
	}
	defer c.Close()
	_, _ = c.Write([]byte(established)) // the connection ends either way
}
