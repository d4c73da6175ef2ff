package core

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// proxy ends the client's TLS inside the stream and speaks HTTP there.
//
//	stream ─▶ TLS (SNI is the stream's own name) ─▶ HTTP/1.1
//	  CONNECT host:port   with credentials    ─▶ tunnel
//	  GET http://…        with credentials    ─▶ plain HTTP, hop by hop
//	  CONNECT hidden host without credentials ─▶ 407
//	  anything else                           ─▶ the fallback, as a web server would
type proxy struct {
	server *http.Server
	conns  *connQueue
	cell   *cell
	vigil  *relay.Vigil
}

func newProxy(h *handler, c *cell, lim Limits, log *slog.Logger) *proxy {
	p := &proxy{cell: c, conns: newConnQueue(), vigil: &h.dialer.vigil}
	p.server = &http.Server{
		Handler:           h,
		ConnContext:       withLease,
		ReadHeaderTimeout: lim.HeaderTime,
		IdleTimeout:       lim.IdleTime,
		MaxHeaderBytes:    lim.HeaderBytes,
		// "OPTIONS *" is for the fallback too.
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
		TLSNextProto:                 map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	p.server.Protocols.SetHTTP1(true)
	return p
}

// run serves HTTP until ctx ends; by then all streams are over.
func (p *proxy) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		_ = p.server.Close() // the queue is all it could fail to close
	})
	defer stop()
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
	if !p.conns.put(ctx, tls.Server(m, clientTLS(cert, l.name))) {
		_ = m.Close() // the stream was reset by the end of ctx
		return nil
	}
	select {
	case <-m.closed:
	case t := <-m.tunnels:
		p.vigil.Add(t.dst)
		defer p.vigil.Remove(t.dst)
		// The bytes are counted at the stream, as the client sent them.
		relay.Join(ctx, t.client, t.dst, nil)
	}
	return nil
}

// clientTLS shows cert to clients that ask for name and for nothing else: the
// stream header is the entry's claim, the name inside TLS the client's own.
func clientTLS(cert *tls.Certificate, name mesh.ServerName) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true, // the name is checked where the certificate is chosen
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if n, err := mesh.ParseServerName(h.ServerName); err != nil || n != name {
				return nil, nil // crypto/tls answers with unrecognized_name
			}
			return cert, nil
		},
	}
}

type leaseKey struct{}

// withLease lets handlers find the stream a request came on.
func withLease(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		if m, ok := t.NetConn().(*metered); ok {
			return context.WithValue(ctx, leaseKey{}, m.lease)
		}
	}
	return ctx
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
