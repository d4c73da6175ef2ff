package muxcool

import (
	"bytes"
	"net"
	"testing"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

// udpOrigin answers each datagram with its own name before it.
func udpOrigin(t *testing.T, name string) clientproto.Destination {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(append([]byte(name), b[:n]...), from)
		}
	}()
	return clientproto.To(c.LocalAddr().(*net.UDPAddr).AddrPort())
}

// One session reaches any destination, and knows who answers.
func TestAFlowIsAFullCone(t *testing.T) {
	w := newWorld(t, opener{}, 64)
	a, b := udpOrigin(t, "a:"), udpOrigin(t, "b:")
	s := w.Open(a, true)
	write(t, s, "1")
	if p, _ := piece1(t, s); string(p.Data) != "a:1" || p.From != a {
		t.Errorf("got %q from %v", p.Data, p.From)
	}
	if err := s.WriteTo([]byte("2"), b); err != nil {
		t.Fatal(err)
	}
	if p, _ := piece1(t, s); string(p.Data) != "b:2" || p.From != b {
		t.Errorf("got %q from %v", p.Data, p.From)
	}
	write(t, s, "3") // goes where the session was opened to
	if p, _ := piece1(t, s); string(p.Data) != "a:3" || p.From != a {
		t.Errorf("got %q from %v", p.Data, p.From)
	}
	if err := s.End(false); err != nil {
		t.Fatal(err)
	}
}

// A datagram that clients do not take is dropped, and nothing else with it.
func TestADatagramTooLargeForClientsIsDropped(t *testing.T) {
	w := newWorld(t, opener{}, 64)
	s := w.Open(udpOrigin(t, ""), true)
	for _, n := range []int{clientproto.MaxDatagram + 1, clientproto.MaxDatagram} {
		if _, err := s.Write(bytes.Repeat([]byte("x"), n)); err != nil {
			t.Fatal(err)
		}
	}
	if p, _ := piece1(t, s); len(p.Data) != clientproto.MaxDatagram {
		t.Errorf("got %d bytes", len(p.Data))
	}
}
