package mgmt

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/meshctl/meshctl/pkg/identity"
)

// caller is who opened a connection, as the port found out. It travels in the
// gRPC peer of every call on it.
type caller struct {
	credentials.CommonAuthInfo
	door   door
	kind   kind
	peer   identity.Peer // when kind is a role
	uid    uint32        // when kind is local
	remote netip.AddrPort
	tls    *tls.ConnectionState // of a caller without a certificate
}

// AuthType names the mechanism, for gRPC.
func (caller) AuthType() string { return "meshctl" }

// node is role/id, and "" of somebody without a certificate.
func (c caller) node() string {
	if c.peer.Leaf == nil {
		return ""
	}
	return c.peer.Node()
}

// callerOf returns who makes the call. It is false for a connection that no
// port of ours accepted.
func callerOf(ctx context.Context) (caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return caller{}, false
	}
	c, ok := p.AuthInfo.(caller)
	return c, ok
}

// knownConn is a connection whose other end has been identified.
type knownConn struct {
	net.Conn
	raw    net.Conn // what Conn runs over
	caller caller
	closed func() // once
}

// cut ends the connection at once, without the goodbye of TLS, which could wait
// for a peer that does not read.
func (c *knownConn) cut() {
	c.raw.Close()
	c.closed()
}

// Close closes the connection and tells its port.
func (c *knownConn) Close() error {
	err := c.Conn.Close()
	c.closed()
	return err
}

// handshaken are gRPC transport credentials for connections whose handshake
// the port has done.
type handshaken struct{}

func (handshaken) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	known, ok := c.(*knownConn)
	if !ok {
		return nil, nil, errors.New("mgmt: identify connection: it came through no port of this server")
	}
	return known, known.caller, nil
}

func (handshaken) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("mgmt: these credentials are for servers")
}

func (handshaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "meshctl"}
}

func (h handshaken) Clone() credentials.TransportCredentials { return h }

func (handshaken) OverrideServerName(string) error { return nil }

// conveyor carries identified connections from the ports to the gRPC server.
type conveyor struct {
	conns chan net.Conn
	done  chan struct{}
	close func() // once
}

func newConveyor() *conveyor {
	v := &conveyor{conns: make(chan net.Conn), done: make(chan struct{})}
	v.close = sync.OnceFunc(func() { close(v.done) })
	return v
}

// put hands c over; it is false when the server no longer takes any.
func (v *conveyor) put(c net.Conn) bool {
	select {
	case v.conns <- c:
		return true
	case <-v.done:
		return false
	}
}

// Accept returns the next connection, or net.ErrClosed.
func (v *conveyor) Accept() (net.Conn, error) {
	select {
	case c := <-v.conns:
		return c, nil
	case <-v.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (v *conveyor) Close() error {
	v.close()
	return nil
}

// Addr is for net.Listener; the ports have the addresses.
func (*conveyor) Addr() net.Addr { return &net.UnixAddr{Name: "mgmt", Net: "unix"} }
