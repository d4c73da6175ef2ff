package muxcool

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/clientproto/clientprototest"
)

// Bytes to a destination and back again, over loopback without TLS: directly, in
// one session, and in eight sessions of one connection.
func BenchmarkStream(b *testing.B) {
	const part = 8 << 10
	b.Run("direct", func(b *testing.B) {
		c, err := net.Dial("tcp", origin(b, echo).String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		b.SetBytes(part)
		back := drain(c)
		buf := make([]byte, part)
		for b.Loop() {
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
		_ = c.(*net.TCPConn).CloseWrite()
		<-back
	})
	for name, n := range map[string]int{"sessions=1": 1, "sessions=8": 8} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, opener{}, 64)
			to := origin(b, echo)
			var open []*clientprototest.Session
			for range n {
				s := w.Open(to, false)
				go func() {
					for range s.Pieces() {
					}
				}()
				open = append(open, s)
			}
			b.SetBytes(part)
			b.ReportAllocs()
			buf := make([]byte, part)
			for i := 0; b.Loop(); i++ {
				if _, err := open[i%n].Write(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func drain(r io.Reader) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, r)
	}()
	return done
}

// A datagram of 1,200 bytes to a destination and back.
func BenchmarkDatagram(b *testing.B) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	go func() {
		buf := make([]byte, clientproto.MaxPacket)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	ap := c.LocalAddr().(*net.UDPAddr).AddrPort()
	w := newWorld(b, opener{}, 64)
	s := w.Open(clientproto.To(netip.AddrPortFrom(ap.Addr(), ap.Port())), true)
	b.ReportAllocs()
	buf := make([]byte, 1200)
	for b.Loop() {
		if _, err := s.Write(buf); err != nil {
			b.Fatal(err)
		}
		<-s.Pieces()
	}
}

// What a session costs that is open and quiet, the ends of the test included.
func BenchmarkIdle(b *testing.B) {
	const n = 1000
	w := newWorld(b, opener{}, n)
	to := origin(b, echo)
	before := memory()
	for range n {
		s := w.Open(to, false)
		if _, err := s.Write(make([]byte, 8<<10)); err != nil {
			b.Fatal(err)
		}
		for left := 8 << 10; left > 0; {
			left -= len((<-s.Pieces()).Data)
		}
	}
	for b.Loop() {
	}
	b.ReportMetric(float64(memory()-before)/n/1024, "KiB/session")
}

// memory returns heap and stacks in use.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
