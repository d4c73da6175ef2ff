package core

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// E-10: a destination that vanishes while nothing moves is noticed by keepalive.
func TestAQuietDestinationIsFoundDeadWithinAMinute(t *testing.T) {
	addr := destinationAt(t, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)); _ = c.Close() })
	f := &forward{address: addr, timeout: patience}
	for name, dial := range map[string]func() (*net.TCPConn, error){
		"proxy":   func() (*net.TCPConn, error) { return dialTCP(t.Context(), netip.MustParseAddrPort(addr)) },
		"forward": func() (*net.TCPConn, error) { return f.dial(t.Context()) },
	} {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		opt := func(which int) int { return socketOption(t, c, which) }
		if took := opt(unix.TCP_KEEPIDLE) + opt(unix.TCP_KEEPINTVL)*opt(unix.TCP_KEEPCNT); took > 60 {
			t.Errorf("%s: a dead destination is found after %d s", name, took)
		}
		_ = c.Close()
	}
}

func socketOption(t *testing.T, c *net.TCPConn, which int) (value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var optErr error
	if err := raw.Control(func(fd uintptr) { value, optErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, which) }); err != nil || optErr != nil {
		t.Fatal(err, optErr)
	}
	return value
}
