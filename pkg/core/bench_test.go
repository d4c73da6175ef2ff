package core

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// BenchmarkTunnel moves bytes over each carrier, with the client, the entry's end
// of the relay and the destination in this process too.
func BenchmarkTunnel(b *testing.B) {
	w := newWorld(b)
	c := newClient()
	w.know(b, c)
	s := w.session(b)
	for _, o := range mesh.Offers() {
		if o.Protocol != mesh.ProtocolVLESS && o.Protocol != mesh.ProtocolHTTP {
			continue
		}
		b.Run(o.String()+"/up", func(b *testing.B) { benchmarkUp(b, w, s, c, o) })
		b.Run(o.String()+"/down", func(b *testing.B) { benchmarkDown(b, w, s, c, o) })
	}
}

const piece = 64 << 10

func benchmarkUp(b *testing.B, w *world, s *relay.Session, c client, o mesh.Offer) {
	took := make(chan struct{}, 1)
	addr := destinationAt(b, func(d *net.TCPConn) {
		defer d.Close()
		buf := make([]byte, piece)
		for {
			if _, err := io.ReadFull(d, buf); err != nil {
				return
			}
			took <- struct{}{}
		}
	})
	conn := benchmarkOpen(b, w, s, c, o, addr)
	defer conn.Close()
	b.SetBytes(piece)
	buf := make([]byte, piece)
	for b.Loop() {
		if _, err := conn.Write(buf); err != nil {
			b.Fatal(err)
		}
		<-took
	}
}

func benchmarkDown(b *testing.B, w *world, s *relay.Session, c client, o mesh.Offer) {
	addr := destinationAt(b, func(d *net.TCPConn) {
		defer d.Close()
		buf := make([]byte, piece)
		for {
			if _, err := d.Write(buf); err != nil {
				return
			}
		}
	})
	conn := benchmarkOpen(b, w, s, c, o, addr)
	defer conn.Close()
	b.SetBytes(piece)
	buf := make([]byte, piece)
	for b.Loop() {
		if _, err := io.ReadFull(conn, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkOpen(b *testing.B, w *world, s *relay.Session, c client, o mesh.Offer, addr string) io.ReadWriteCloser {
	b.Helper()
	conn := carriers[o.Transport](b, w, s, c)
	head := c.vless(cmdTCP, at(addr))
	if o.Protocol == mesh.ProtocolHTTP {
		head = []byte("CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\nProxy-Authorization: " + basic(c.Id, c.secret.Reveal()) + "\r\n\r\n")
	}
	if _, err := conn.Write(head); err != nil {
		b.Fatal(err)
	}
	return conn
}

// BenchmarkConnections opens a tunnel, moves a byte each way and ends it.
func BenchmarkConnections(b *testing.B) {
	w := newWorld(b)
	c := newClient()
	w.know(b, c)
	s := w.session(b)
	addr := destinationAt(b, func(d *net.TCPConn) { _, _ = io.Copy(d, d); _ = d.Close() })
	for _, t := range []mesh.Transport{mesh.TransportTCP, mesh.TransportWS, mesh.TransportGRPC} {
		b.Run(string(t), func(b *testing.B) {
			for b.Loop() {
				conn := carriers[t](b, w, s, c)
				exchangeByte(b, conn, append(c.trojan(cmdTCP, at(addr)), 'x'))
				_ = conn.Close()
			}
		})
	}
	b.Run("grpc, one connection", func(b *testing.B) {
		tr := w.h2(b, s, c)
		for b.Loop() {
			benchmarkCall(b, tr, c, addr)
		}
	})
}

func benchmarkCall(b *testing.B, tr http.RoundTripper, c client, addr string) {
	conn := openCall(b, tr, c, "/"+grpcService+"/Tun")
	exchangeByte(b, conn, append(c.trojan(cmdTCP, at(addr)), 'x'))
	_ = conn.Close()
}

// BenchmarkDatagram sends one of 1,200 bytes to an echo and takes it back.
func BenchmarkDatagram(b *testing.B) {
	w := newWorld(b)
	c := newClient()
	w.know(b, c)
	s := w.session(b)
	addr, _ := udpEcho(b)
	p := trojanPacket(at(addr), make([]byte, 1200))
	for _, t := range []mesh.Transport{mesh.TransportTCP, mesh.TransportWS, mesh.TransportGRPC} {
		b.Run(string(t), func(b *testing.B) {
			conn := carriers[t](b, w, s, c)
			defer conn.Close()
			if _, err := conn.Write(c.trojan(cmdMux, at(addr))); err != nil { // 3 is UDP here
				b.Fatal(err)
			}
			b.SetBytes(1200)
			got := make([]byte, len(p))
			for b.Loop() {
				if _, err := conn.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func exchangeByte(b *testing.B, conn io.ReadWriter, send []byte) {
	b.Helper()
	if _, err := conn.Write(send); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
}
