package core

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// proxy ends the client's TLS inside the stream and looks at what comes first.
//
//	stream ─▶ TLS (SNI is the stream's own name)
//	  VLESS, Trojan, SOCKS                      ─▶ tunnel, datagrams or many of both
//	  HTTP/1.1 and HTTP/2
//	    CONNECT host:port     with credentials    ─▶ tunnel
//	    GET http://…          with credentials    ─▶ plain HTTP, hop by hop
//	    CONNECT hidden host   without credentials ─▶ 407
//	    WebSocket at its path                     ─▶ VLESS or Trojan in it
//	    POST to a gRPC service                    ─▶ VLESS or Trojan in it
//	  anything else                             ─▶ the fallback, as a web server would
//
// What the cell does not offer is anything else.
type proxy struct {
	*handler
	server *http.Server
	conns  *connQueue
	cell   *cell
	limits Limits
}

func newProxy(h *handler, c *cell, lim Limits, log *slog.Logger) *proxy {
	p := &proxy{handler: h, cell: c, conns: newConnQueue(), limits: lim}
	p.server = &http.Server{
		Handler:           h,
		ConnContext:       withStream,
		ReadHeaderTimeout: lim.HeaderTime,
		IdleTimeout:       lim.IdleTime,
		MaxHeaderBytes:    lim.HeaderBytes,
		// "OPTIONS *" is for the fallback too.
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: lim.Requests,
			// So that a few destinations that take nothing do not stop the others.
			MaxReceiveBufferPerConnection: 4<<20 - 1,
			MaxReceiveBufferPerStream:     1 << 20,
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	p.server.Protocols.SetHTTP1(true)
	p.server.Protocols.SetHTTP2(true)
	p.server.Protocols.SetUnencryptedHTTP2(true) // where no ALPN was said
	return p
}

// run serves HTTP until ctx ends; by then all streams are over.
func (p *proxy) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		_ = p.server.Close() // the queue is all it could fail to close
	})
	defer stop()
	defer p.busy.Wait() // in HTTP/2 they may outlive their connection by a moment
	if err := p.server.Serve(p.conns); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("core: proxy: %w", err)
	}
	return nil
}

func (p *proxy) serve(ctx context.Context, in *relay.Incoming, l *lease) *refusal {
	cert := p.cell.certificate(time.Now())
	if cert == nil {
		return &refusal{relay.CodeInternal, true, "the core has no certificate for its cell yet"}
	}
	st, err := in.Accept()
	if err != nil { // the entry has given up
		return nil
	}
	m := meter(st, l)
	stop := context.AfterFunc(ctx, func() { st.Reset(resetCode(ctx)) })
	defer stop()
	c := tls.Server(m, clientTLS(cert, l.name))
	defer p.caught(c)
	if err := p.client(ctx, m, c); err != nil {
		p.log.Debug("client lost", "err", err)
		relay.Abort(c, relay.CodePeerReset) // not to be taken for an end in good order
	}
	_ = c.Close() // nothing more is to be said
	return nil
}

// caught ends one client whose bytes, or a fault of ours, lead to a panic.
func (p *proxy) caught(c *tls.Conn) {
	if r := recover(); r != nil {
		p.metrics.panics.Inc()
		p.log.Error("client's connection panicked", "err", fmt.Sprint(r), "stack", string(debug.Stack()))
		relay.Abort(c, relay.CodeInternal)
	}
}

// client finds out who speaks inside c, and serves it to its end.
func (p *proxy) client(ctx context.Context, m *metered, c *tls.Conn) error {
	if err := p.shake(ctx, c); err != nil {
		p.log.Debug("client's TLS failed", "err", err)
		return nil // the alert says why
	}
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		// Then the server speaks first, and looking would show.
		return p.web(ctx, m, c)
	}
	br := bufio.NewReaderSize(c, firstBytes)
	d, ok := p.devices.get(m.lease.device.ID)
	if !ok {
		return p.web(ctx, m, &looked{halfConn: c, first: br})
	}
	until := time.Now().Add(p.limits.HeaderTime)
	_ = m.SetReadDeadline(until) // a stream that ended tells when it is read
	protocol, err := recognise(br, d, p.ways.Load(), mesh.TransportTCP)
	if err != nil || protocol == "" {
		// Also who took too long: what a web server answers depends on what came.
		return p.web(ctx, m, &looked{halfConn: c, first: br, until: until})
	}
	g := guest{m.lease, d, func() error { return m.SetReadDeadline(time.Time{}) }}
	return p.speak(ctx, protocol, mesh.TransportTCP, g, c, br)
}

// shake ends the client's handshake.
func (p *proxy) shake(ctx context.Context, c *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, p.limits.HeaderTime)
	defer cancel()
	return c.HandshakeContext(ctx)
}

// web has net/http serve c. What net/http leaves to the stream's own goroutine
// is done here, so that nothing of the request stays in memory meanwhile.
func (p *proxy) web(ctx context.Context, m *metered, c net.Conn) error {
	if !p.conns.put(ctx, c) {
		return nil // the stream was reset by the end of ctx
	}
	select {
	case <-m.closed:
		return nil
	case job := <-m.jobs:
		return job(ctx)
	}
}

// clientTLS shows cert to clients that ask for name and for nothing else: the
// stream header is the entry's claim, the name inside TLS the client's own.
func clientTLS(cert *tls.Certificate, name mesh.ServerName) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// In this order, so that a browser has a connection of its own for each
		// tunnel, and only those who speak nothing else get HTTP/2.
		NextProtos:             []string{"http/1.1", "h2"},
		SessionTicketsDisabled: true, // the name is checked where the certificate is chosen
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if n, err := mesh.ParseServerName(h.ServerName); err != nil || n != name {
				return nil, nil // crypto/tls answers with unrecognized_name
			}
			return cert, nil
		},
	}
}

type streamKey struct{}

// withStream lets handlers find the stream a request came on.
func withStream(ctx context.Context, c net.Conn) context.Context {
	if l, ok := c.(*looked); ok {
		c = l.halfConn
	}
	if t, ok := c.(*tls.Conn); ok {
		if m, ok := t.NetConn().(*metered); ok {
			return context.WithValue(ctx, streamKey{}, m)
		}
	}
	return ctx
}

func streamOf(r *http.Request) (*metered, bool) {
	m, ok := r.Context().Value(streamKey{}).(*metered)
	return m, ok
}

// connQueue is the listener through which streams reach net/http.
type connQueue struct {
	conns chan net.Conn
	done  chan struct{}
}

func newConnQueue() *connQueue {
	return &connQueue{conns: make(chan net.Conn), done: make(chan struct{})}
}

// put hands c over, unless ctx ends or the queue closes first.
func (q *connQueue) put(ctx context.Context, c net.Conn) bool {
	select {
	case q.conns <- c:
		return true
	case <-ctx.Done():
	case <-q.done:
	}
	return false
}

// Accept implements net.Listener.
func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. net/http calls it once.
func (q *connQueue) Close() error {
	close(q.done)
	return nil
}

// Addr implements net.Listener.
func (q *connQueue) Addr() net.Addr { return &net.UnixAddr{Name: "relay", Net: "relay"} }
