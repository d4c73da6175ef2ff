package core

import (
	"bufio"
	"encoding/binary"
	"io"
	"testing"

	"github.com/meshctl/meshctl/pkg/clientproto"
)

// muxFrame is one frame of a client with its payload.
func muxFrame(f clientproto.Frame, p []byte) []byte {
	f.Data, f.Size = p != nil, len(p)
	return append(clientproto.AppendFrame(nil, f), p...)
}

// One connection carries streams and flows, also where the protocol has no
// command for it.
func TestMultiplexing(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	echo := echoAt(t)
	addr, second := udpEcho(t)
	heads := map[string][]byte{
		"VLESS":  c.vless(cmdMux, clientproto.Destination{}),
		"Trojan": c.trojan(cmdTCP, clientproto.Destination{Name: muxName, Port: 9527}),
	}
	for name, head := range heads {
		conn := w.connect(t, s, c)
		br := bufio.NewReader(conn)
		send := func(b []byte) {
			t.Helper()
			if _, err := conn.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		next := func(id uint16) string {
			t.Helper()
			f, err := clientproto.ReadFrame(br)
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, f.Size)
			if _, err := io.ReadFull(br, p); err != nil || f.Session != id {
				t.Fatalf("%s: session %d, %v", name, f.Session, err)
			}
			if f.UDP {
				return f.To.String() + " " + string(p)
			}
			return string(p)
		}
		send(append(head, muxFrame(clientproto.Frame{Session: 1, Kind: clientproto.FrameNew, To: at(echo)}, []byte("one"))...))
		if name == "VLESS" {
			var v [2]byte
			if _, err := io.ReadFull(br, v[:]); err != nil || binary.BigEndian.Uint16(v[:]) != 0 {
				t.Fatalf("reply %v, %v", v, err)
			}
		}
		if got := next(1); got != "one" {
			t.Errorf("%s: %q", name, got)
		}
		send(muxFrame(clientproto.Frame{Session: 2, Kind: clientproto.FrameNew, UDP: true, To: at(addr)}, []byte("+two")))
		if got := next(2); got != second+" +two" {
			t.Errorf("%s: %q", name, got)
		}
		send(muxFrame(clientproto.Frame{Session: 1, Kind: clientproto.FrameKeep}, []byte("three")))
		if got := next(1); got != "three" {
			t.Errorf("%s: %q", name, got)
		}
		send(muxFrame(clientproto.Frame{Session: 3, Kind: clientproto.FrameNew, To: at("10.0.0.1:80")}, []byte("denied")))
		if f, err := clientproto.ReadFrame(br); err != nil || f.Kind != clientproto.FrameEnd || f.Session != 3 || !f.Failed {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		_ = conn.Close()
	}
	h := w.egress.(*proxy)
	eventually(t, "all ends with the connection", func() bool { return h.flows.count()+h.tunnels.count() == 0 })
}
