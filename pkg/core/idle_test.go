package core

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
)

// E-15: what waits in a tunnel costs memory for each client that is merely
// connected. Both ends and the client's TLS are counted here.
func TestAnIdleTunnelHoldsNothingOfItsRequest(t *testing.T) {
	const n = 100
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr := destinationAt(t, func(d *net.TCPConn) { _, _ = io.Copy(d, d); _ = d.Close() })
	s := w.session(t)
	w.tunnel(t, s, c, addr)
	before := runtime.NumGoroutine()
	var tunnels []*tls.Conn
	for range n {
		tunnels = append(tunnels, w.tunnel(t, s, c, addr))
	}
	// The destination's, and one for each direction in the core. Those of the first
	// tunnel may have been on their way when they were counted.
	eventually(t, "three goroutines a tunnel", func() bool { return runtime.NumGoroutine()-before <= 3*n+5 })
	for _, tc := range tunnels {
		_ = tc.Close()
	}
}
