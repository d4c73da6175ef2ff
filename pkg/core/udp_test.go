package core

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// udpEcho answers datagrams with their own bytes, also from a second socket when
// they begin with '+'.
func udpEcho(t testing.TB) (addr, second string) {
	t.Helper()
	a, b := udpSocket(t), udpSocket(t)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := a.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			c := a
			if n > 0 && buf[0] == '+' {
				c = b
			}
			_, _ = c.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	return a.LocalAddr().String(), b.LocalAddr().String()
}

func udpSocket(t testing.TB) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func trojanPacket(to clientproto.Destination, p []byte) []byte {
	return append(clientproto.AppendTrojanPacket(nil, to, len(p)), p...)
}

func vlessPacket(p []byte) []byte {
	return append(clientproto.AppendVLESSPacket(nil, len(p)), p...)
}

func readTrojanPacket(t *testing.T, br *bufio.Reader) (from clientproto.Destination, p []byte) {
	t.Helper()
	from, n, err := clientproto.ReadTrojanPacket(br)
	if err != nil {
		t.Fatal(err)
	}
	p = make([]byte, n)
	if _, err := io.ReadFull(br, p); err != nil {
		t.Fatal(err)
	}
	return from, p
}

func TestDatagramsOfVLESS(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr, _ := udpEcho(t)
	s := w.session(t)
	for name, open := range carriers {
		conn := open(t, w, s, c)
		for i, size := range []int{1, 0, 1200, 8192} {
			p := bytes.Repeat([]byte{'x'}, size)
			b := vlessPacket(p)
			if i == 0 {
				b = append(c.vless(cmdUDP, at(addr)), b...)
			}
			if _, err := conn.Write(b); err != nil {
				t.Fatal(err)
			}
			want := vlessPacket(p)
			if i == 0 {
				want = append([]byte{0, 0}, want...)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, %d bytes: %v", name, size, err)
			}
		}
		// There is no way to say that this is from elsewhere.
		if _, err := conn.Write(append(vlessPacket([]byte("+x")), vlessPacket([]byte("y"))...)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3)
		if _, err := io.ReadFull(conn, got); err != nil || string(got[2:]) != "y" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		_ = conn.Close()
	}
	eventually(t, "flows end", func() bool { return w.egress.(*proxy).flows.count() == 0 })
}

// Full cone: one flow sends to many, by address and name, and whoever may be
// reached may answer.
func TestDatagramsOfTrojan(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr, second := udpEcho(t)
	var asked atomic.Int32
	w.dialer.resolve = func(context.Context, string) ([]netip.Addr, error) {
		asked.Add(1)
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1")}, nil
	}
	conn := w.connect(t, w.session(t), c)
	br := bufio.NewReader(conn)
	if _, err := conn.Write(c.trojan(cmdMux, at(addr))); err != nil { // 3 is UDP here
		t.Fatal(err)
	}
	named := clientproto.Destination{Name: "echo.example.com", Port: at(addr).Port}
	for _, tt := range []struct {
		to   clientproto.Destination
		send string
		from string
	}{{at(addr), "one", addr}, {at(addr), "+two", second}, {named, "three", addr}, {named, "+four", second}} {
		if _, err := conn.Write(trojanPacket(tt.to, []byte(tt.send))); err != nil {
			t.Fatal(err)
		}
		from, p := readTrojanPacket(t, br)
		if from.String() != tt.from || string(p) != tt.send {
			t.Errorf("%s: %q from %s", tt.send, p, from)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("resolved %d times", n)
	}
}

// The policy holds for each datagram, and for each answer.
func TestDatagramsAreJudgedOneByOne(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr, second := udpEcho(t)
	conn := w.connect(t, w.session(t), c)
	br := bufio.NewReader(conn)
	if _, err := conn.Write(c.trojan(cmdMux, at(addr))); err != nil {
		t.Fatal(err)
	}
	send := func(to clientproto.Destination, text string) {
		t.Helper()
		if _, err := conn.Write(trojanPacket(to, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	send(at("10.1.2.3:53"), "private")
	send(at("127.0.0.1:25"), "a closed port")
	send(at("224.0.0.251:5353"), "multicast")
	send(at("255.255.255.255:9"), "broadcast")
	send(clientproto.Destination{Name: "0x7f.1", Port: 53}, "no name")
	send(at(addr), "good")
	if from, p := readTrojanPacket(t, br); string(p) != "good" || from.String() != addr {
		t.Errorf("%q from %s", p, from)
	}
	// What management or the owner denies from now on holds for this flow too.
	p := *w.dialer.policy.Load()
	p.mesh = parseMeshAddresses([]string{second})
	w.dialer.policy.Store(&p)
	send(at(second), "denied")
	send(at(addr), "again")
	if _, got := readTrojanPacket(t, br); string(got) != "again" {
		t.Errorf("%q", got)
	}
	// An answer from where nobody may send is not passed on.
	send(at(addr), "+from the second")
	send(at(addr), "last")
	for {
		_, got := readTrojanPacket(t, br)
		if string(got) == "last" {
			break
		}
		if len(got) > 0 && got[0] == '+' && p.check(netip.MustParseAddrPort(second), nil) != nil {
			t.Fatalf("%q came from where nobody may send", got)
		}
	}
}

// A client that has said all gets an end in good order.
func TestAFlowEndsWithItsClient(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr, _ := udpEcho(t)
	conn := w.connect(t, w.session(t), c)
	if _, err := conn.Write(append(c.trojan(cmdMux, at(addr)), trojanPacket(at(addr), []byte("x"))...)); err != nil {
		t.Fatal(err)
	}
	if _, p := readTrojanPacket(t, bufio.NewReaderSize(conn, 16)); string(p) != "x" {
		t.Errorf("%q", p)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// IPv6 is as IPv4, where a destination is named by address and by name.
func TestIPv6(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Config.Egress.Allow = append(o.Config.Egress.Allow, netip.MustParsePrefix("::1/128"))
	})
	c := newClient()
	w.know(t, c)
	w.dialer.resolve = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{netip.IPv6Loopback()}, nil }
	u, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skipf("no IPv6 on this machine: %v", err)
	}
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	var servers sync.WaitGroup
	defer servers.Wait()
	defer ln.Close()
	defer u.Close()
	servers.Go(func() {
		b := make([]byte, 100)
		for {
			n, from, err := u.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = u.WriteToUDPAddrPort(b[:n], from)
		}
	})
	servers.Go(func() {
		for {
			d, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(d, d)
			_ = d.Close()
		}
	})
	s := w.session(t)
	for _, name := range []string{"", "six.example.com", "шесть.example.com"} {
		to := at(u.LocalAddr().String())
		dst := at(ln.Addr().String())
		if name != "" {
			to = clientproto.Destination{Name: name, Port: to.Port}
			dst = clientproto.Destination{Name: name, Port: dst.Port}
		}
		conn := w.connect(t, s, c)
		if _, err := conn.Write(append(c.trojan(cmdMux, to), trojanPacket(to, []byte("x"))...)); err != nil {
			t.Fatal(err)
		}
		if from, p := readTrojanPacket(t, bufio.NewReader(conn)); string(p) != "x" || from.String() != u.LocalAddr().String() {
			t.Errorf("%q from %s", p, from)
		}
		conn = w.connect(t, s, c)
		if _, err := conn.Write(append(c.trojan(cmdTCP, dst), 'x')); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}
}

func TestFlowsAreFew(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.DeviceFlows = 2; o.Config.Limits.Flows = 3 })
	one, two := newClient(), newClient()
	w.know(t, one, two)
	addr, _ := udpEcho(t)
	s := w.session(t)
	works := func(c client) bool {
		conn := w.connect(t, s, c)
		if _, err := conn.Write(append(c.vless(cmdUDP, at(addr)), vlessPacket([]byte("x"))...)); err != nil {
			t.Fatal(err)
		}
		_, err := io.ReadFull(conn, make([]byte, 5))
		return err == nil
	}
	got := []bool{works(one), works(one), works(one), works(two), works(two)}
	for i, want := range []bool{true, true, false, true, false} {
		if got[i] != want {
			t.Errorf("flow %d: %v", i, got[i])
		}
	}
}

// A flow that is quiet ends, one that only asked for names sooner.
func TestQuietFlowsEnd(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.FlowIdle, o.Config.Limits.DNSIdle = time.Hour, 100*time.Millisecond })
	c := newClient()
	w.know(t, c)
	h := w.egress.(*proxy)
	g := guest{lease: &lease{}, device: mesh.ServedDevice{ID: mesh.DeviceID(c.Id)}}
	f, err := h.listen(g)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	none := func([]byte, netip.AddrPort) error { return errors.New("nothing was sent") }
	if err := f.Send(t.Context(), []byte("q"), at("127.0.0.1:53")); err != nil {
		t.Fatal(err)
	}
	err = f.Receive(none)
	for err == nil { // the port answered that it is closed
		err = f.Receive(none)
	}
	if !tookTooLong(err) {
		t.Errorf("got %v", err)
	}
	if err := f.Send(t.Context(), []byte("q"), at("127.0.0.1:9")); err != nil {
		t.Fatal(err)
	}
	if f.idle() != time.Hour {
		t.Errorf("idle after %v", f.idle())
	}
	conn := w.connect(t, w.session(t), c)
	if _, err := conn.Write(c.vless(cmdUDP, at("127.0.0.1:53"))); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a quiet flow's connection: %v", err)
	}
}
