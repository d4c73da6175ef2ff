package core

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/relay"
)

// tunnel opens a CONNECT tunnel to addr.
func (w *world) tunnel(t *testing.T, s *relay.Session, c client, addr string) *tls.Conn {
	t.Helper()
	tc := w.connect(t, s, c)
	fmt.Fprintf(tc, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", addr, addr, basic(c.Id, c.secret.Reveal()))
	got := make([]byte, len(established))
	if _, err := io.ReadFull(tc, got); err != nil || string(got) != established {
		t.Fatalf("tunnel: %q, %v", got, err)
	}
	return tc
}

// destination runs serve for each connection to a listener on loopback.
func destinationAt(t testing.TB, serve func(*net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
	return ln.Addr().String()
}

// E-10: the end of the client's bytes reaches the destination, which still
// answers as long as it likes.
func TestATunnelIsHalfClosed(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	const size = 1 << 20
	addr := destinationAt(t, func(d *net.TCPConn) {
		defer d.Close()
		got, err := io.ReadAll(d)
		if err != nil || string(got) != "request" {
			t.Errorf("destination read %q, %v", got, err)
		}
		if _, err := d.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			t.Error(err)
		}
	})
	tc := w.tunnel(t, w.session(t), c, addr)
	if _, err := io.WriteString(tc, "request"); err != nil {
		t.Fatal(err)
	}
	if err := tc.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.Copy(io.Discard, tc); err != nil || got != size {
		t.Errorf("read %d, %v", got, err)
	}
}

// A destination that resets must not look like one that finished.
func TestAResetIsPassedOn(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr := destinationAt(t, func(d *net.TCPConn) {
		_, _ = d.Read(make([]byte, 1))
		_ = d.SetLinger(0)
		_ = d.Close()
	})
	tc := w.tunnel(t, w.session(t), c, addr)
	if _, err := io.WriteString(tc, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, tc); err == nil {
		t.Error("the tunnel ended in good order")
	}
}

// Bytes that a client sends right behind its CONNECT are not lost.
func TestEarlyBytesReachTheDestination(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	addr := destinationAt(t, func(d *net.TCPConn) { _, _ = io.Copy(d, d); _ = d.Close() })
	tc := w.connect(t, w.session(t), c)
	fmt.Fprintf(tc, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\nearly", addr, addr, basic(c.Id, c.secret.Reveal()))
	if err := tc.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(tc); err != nil || string(got) != established+"early" {
		t.Errorf("got %q, %v", got, err)
	}
}

// C-08: everything a device has open ends when it is removed.
func TestTunnelsOfARemovedDeviceAreCut(t *testing.T) {
	const n = 100
	w := newWorld(t)
	gone, stays := newClient(), newClient()
	w.know(t, gone, stays)
	addr := destinationAt(t, func(d *net.TCPConn) { _, _ = io.Copy(d, d); _ = d.Close() })
	s := w.session(t)
	var tunnels []*tls.Conn
	for range n {
		tunnels = append(tunnels, w.tunnel(t, s, gone, addr))
	}
	other := w.tunnel(t, s, stays, addr)
	began := time.Now()
	w.tell(t, &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Devices{Devices: &controlpb.Devices{
		Base: w.devices.held(), Revision: w.devices.held() + 1, Removes: []string{gone.Id},
	}}})
	for _, tc := range tunnels {
		if err := tc.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := tc.Read(make([]byte, 1)); err == nil || err == io.EOF || isTimeout(err) {
			t.Fatalf("a tunnel of the removed device: %v", err)
		}
	}
	if took := time.Since(began); took > cutTime {
		t.Errorf("cutting took %v", took)
	}
	if r := refused(t, openErr(t, s, gone)); r.Code != relay.CodeUnknownDevice || !r.Retryable {
		t.Errorf("a new stream: %v", r)
	}
	if _, err := io.WriteString(other, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
		t.Errorf("the other device's tunnel: %v", err)
	}
}

func openErr(t *testing.T, s *relay.Session, c client) error {
	t.Helper()
	st, err := s.Open(t.Context(), header(c))
	if err == nil {
		_ = st.Close()
	}
	return err
}
