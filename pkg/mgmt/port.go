package mgmt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// handshakeTime bounds a TLS handshake, whatever the other end does.
	handshakeTime = 5 * time.Second
	// strangerTime bounds a connection without a certificate: one enrollment.
	strangerTime = 30 * time.Second
)

// port accepts TLS connections at one door, finds out who is there, and hands
// the connection to the gRPC server, or the relay of an entry to the subscription
// service.
type port struct {
	door door
	tls  *tls.Config
	gate *gate
	revs *identity.Revocations // connections of whoever is revoked are cut
	out  *conveyor
	// relay takes a relay session of an entry, whose certificate ends then. It is
	// false when it does not, and nil at doors without relays.
	relay   func(conn net.Conn, entry string, ends time.Time) bool
	metrics *metrics
	log     *slog.Logger
}

// serve accepts until ctx ends. It closes ln. Connections that were handed over
// stay; handshakes under way are cut.
func (p *port) serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	defer ln.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := acceptPatiently(ctx, ln, p.log)
		if err != nil {
			return err
		}
		if conn == nil {
			return nil
		}
		from := remoteOf(conn)
		leave, ok := p.gate.enter(from.Addr(), time.Now(), func() { conn.Close() })
		if !ok {
			conn.Close()
			continue
		}
		wg.Go(func() { p.identify(ctx, conn, from, leave) })
	}
}

// identify does the handshake and hands the connection over.
func (p *port) identify(ctx context.Context, conn net.Conn, from netip.AddrPort, leave *passage) {
	defer p.caught(conn, leave)
	bounded := &budgetConn{Conn: conn, left: strangerBytes}
	t := tls.Server(bounded, p.tls)
	hctx, cancel := context.WithTimeout(ctx, handshakeTime)
	err := t.HandshakeContext(hctx)
	cancel()
	leave.shaken()
	var who caller
	if err == nil {
		who, err = p.whoIs(t.ConnectionState(), from)
	}
	if err == nil && !leave.identified(who.node()) {
		err = fmt.Errorf("mgmt: admit connection: %q has too many open: %w", who.node(), mesh.ErrUnavailable)
	}
	if err != nil {
		p.log.Debug("connection refused", "unit", p.door, "from", from, "err", err)
		p.gate.refused()
		conn.Close()
		leave.closed()
		return
	}
	p.handOver(t, bounded, who, leave)
}

// caught ends one connection whose handshake panics, and nothing else.
func (p *port) caught(conn net.Conn, leave *passage) {
	r := recover()
	if r == nil {
		return
	}
	p.metrics.panics.Inc()
	p.log.Error("handshake panicked", "unit", p.door, "err", fmt.Sprint(r), "stack", string(debug.Stack()))
	conn.Close()
	leave.shaken()
	leave.closed()
}

func (p *port) handOver(t *tls.Conn, raw *budgetConn, who caller, leave *passage) {
	known := &knownConn{Conn: t, raw: raw, caller: who}
	stopTimer, release := func() bool { return true }, func() {}
	if who.kind == kindNobody {
		stopTimer = time.AfterFunc(strangerTime, func() { raw.Close() }).Stop
	} else {
		raw.lifted.Store(true)
		release = p.revs.Track(who.peer, func() { raw.Close() })
	}
	known.closed = sync.OnceFunc(func() {
		stopTimer()
		release()
		leave.closed()
	})
	if !p.pass(t.ConnectionState().NegotiatedProtocol, known) {
		known.cut()
	}
}

// pass hands the connection to who speaks its protocol.
func (p *port) pass(alpn string, c *knownConn) bool {
	if alpn == identity.ProtoRelay {
		return p.relay != nil && p.relay(c, c.caller.peer.ID, c.caller.peer.Leaf.NotAfter)
	}
	return p.out.put(c)
}

func (p *port) whoIs(cs tls.ConnectionState, from netip.AddrPort) (caller, error) {
	c := caller{door: p.door, kind: kindNobody, remote: from}
	if len(cs.PeerCertificates) == 0 {
		c.tls = &cs
		return c, nil
	}
	peer, err := identity.RenewingPeerOf(cs)
	if err != nil {
		return caller{}, err
	}
	c.kind, c.peer = kind(peer.Role), peer
	return c, nil
}

// acceptPatiently accepts one connection and outlives what passes: no file
// descriptors left, a connection reset before it was accepted. It returns nil
// and no error when ctx has ended.
func acceptPatiently(ctx context.Context, ln net.Listener, log *slog.Logger) (net.Conn, error) {
	wait := 5 * time.Millisecond
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, net.ErrClosed):
			return nil, err
		}
		log.Warn("accepting failed", "err", err, "delay", wait)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Second)
	}
}

func remoteOf(c net.Conn) netip.AddrPort {
	if t, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		a := t.AddrPort()
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return netip.AddrPort{}
}
