package core

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// farewell is how long a client may take to close its WebSocket after the
	// last byte, before this side does. V2Ray takes any close for a failure, and
	// drops what its application has not read until then; its own servers wait as
	// long.
	farewell = 2 * time.Second
	// maxEarly bounds what a client sends in a header of its handshake.
	maxEarly = 8 << 10
)

// webSocket carries a protocol in the binary messages of a WebSocket. Where a
// message ends means nothing.
type webSocket struct {
	ws      *websocket.Conn
	below   net.Conn // the client's TLS
	early   []byte   // came with the handshake
	message io.Reader
	over    chan struct{} // closed by the reader when there is nothing to read
	gone    func()        // called when the client has closed it
}

// acceptWebSocket answers a handshake. The error has been answered.
func acceptWebSocket(w http.ResponseWriter, r *http.Request, below net.Conn) (*webSocket, error) {
	o := &websocket.AcceptOptions{InsecureSkipVerify: true} // apps name any origin; there are no cookies here
	early, protocol := earlyData(r.Header.Get("Sec-WebSocket-Protocol"))
	if early != nil {
		o.Subprotocols = []string{protocol}
	}
	ws, err := websocket.Accept(w, r, o)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1) // messages are passed on as they come
	return &webSocket{ws: ws, below: below, early: early, over: make(chan struct{})}, nil
}

// earlyData is what V2Ray and its relatives put into the handshake to save a
// round trip, in the place of a protocol's name.
func earlyData(header string) (data []byte, protocol string) {
	if header == "" || len(header) > maxEarly {
		return nil, ""
	}
	data, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return nil, ""
	}
	return data, header
}

// isUpgrade says whether a request asks for a WebSocket; others are for the web
// server.
func isUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.Header.Get("Sec-WebSocket-Key") != "" &&
		strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// Read implements io.Reader. It is the only reader.
func (c *webSocket) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	for {
		n, err := c.read(p)
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *webSocket) read(p []byte) (int, error) {
	if c.message == nil {
		// The stream below ends it; there is no other end to wait for.
		_, r, err := c.ws.Reader(context.Background())
		if err != nil {
			return 0, c.readError(err)
		}
		c.message = r
	}
	n, err := c.message.Read(p)
	if errors.Is(err, io.EOF) {
		c.message, err = nil, nil
	}
	return n, err
}

// readError tells a client that closed in good order from one that was lost.
func (c *webSocket) readError(err error) error {
	select {
	case <-c.over:
	default:
		close(c.over)
	}
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
	default:
		if !errors.Is(err, io.EOF) { // V2Ray ends its TLS in good order, and nothing else
			return err
		}
	}
	if c.gone != nil {
		c.gone()
	}
	return io.EOF
}

// Write implements io.Writer; it makes one message.
func (c *webSocket) Write(p []byte) (int, error) {
	if err := c.ws.Write(context.Background(), websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite closes both directions, unless the client does so now, and waits a
// little for the client to agree.
func (c *webSocket) CloseWrite() error {
	late := time.NewTimer(farewell)
	defer late.Stop()
	select {
	case <-c.over:
	case <-late.C:
	}
	return c.ws.Close(websocket.StatusNormalClosure, "")
}

// Close ends it at once, if it has not ended.
func (c *webSocket) Close() error { return c.ws.CloseNow() }

// NetConn lets relay.Join reset the stream itself.
func (c *webSocket) NetConn() net.Conn { return c.below }

// within returns a context that ends some time after the client has closed.
func (c *webSocket) within(ctx context.Context, linger time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(linger, cancel)
	late.Stop()
	c.gone = func() { late.Reset(linger) }
	return ctx, func() { late.Stop(); cancel() }
}

// webSocket serves a WebSocket at one of the cell's paths.
func (h *handler) webSocket(w http.ResponseWriter, r *http.Request, m *metered, g guest) {
	ws, err := acceptWebSocket(w, r, m)
	if err != nil {
		return // it was answered
	}
	m.jobs <- func(ctx context.Context) error {
		ctx, cancel := ws.within(ctx, h.linger)
		defer cancel()
		defer ws.Close()
		br := bufio.NewReaderSize(ws, firstBytes)
		_ = m.SetReadDeadline(time.Now().Add(h.limits.HeaderTime)) // a stream that ended tells when it is read
		protocol, err := recognise(br, g.device, h.ways.Load(), mesh.TransportWS)
		if err != nil || protocol == "" {
			return err
		}
		g.settle = func() error { return m.SetReadDeadline(time.Time{}) }
		return h.speak(ctx, protocol, mesh.TransportWS, g, ws, br)
	}
}
