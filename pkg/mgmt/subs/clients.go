package subs

import (
	"net"
	"net/netip"
	"sync"

	"github.com/meshctl/meshctl/pkg/relay"
)

// client is one client's connection, from the address that its entry names.
type client struct {
	*relay.Stream
	from   net.Addr
	closed func() // once
}

// RemoteAddr is where the client is, as its entry says.
func (c *client) RemoteAddr() net.Addr { return c.from }

// Close ends the stream and makes room for another.
func (c *client) Close() error {
	err := c.Stream.Close()
	c.closed()
	return err
}

// addrOf is the zero address when the entry names none.
func addrOf(a netip.AddrPort) net.Addr { return net.TCPAddrFromAddrPort(a) }

// clients is the listener of the HTTP server.
type clients struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *clients) put(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

// Accept returns the next client, or net.ErrClosed.
func (l *clients) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *clients) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is for net.Listener: the service has no address of its own.
func (*clients) Addr() net.Addr { return &net.UnixAddr{Name: "subscription", Net: "unix"} }
