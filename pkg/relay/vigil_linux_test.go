package relay

import (
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyAPeerThatOwesForLongIsGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		info unix.TCPInfo
		want bool
	}{
		{"idle for an hour", unix.TCPInfo{Last_ack_recv: 3_600_000}, false},
		{"bytes under way", unix.TCPInfo{Unacked: 3, Last_ack_recv: 100}, false},
		{"idle for an hour, bytes just sent", unix.TCPInfo{Unacked: 3, Last_ack_recv: 3_600_000}, false},
		{"a full window for an hour", unix.TCPInfo{Notsent_bytes: 1 << 20, Last_ack_recv: 119_000}, false},
		{"a full window, a probe under way and one lost", unix.TCPInfo{Notsent_bytes: 1 << 20, Probes: 2, Last_ack_recv: 240_000}, false},
		{"vanished with a full window", unix.TCPInfo{Notsent_bytes: 1 << 20, Probes: 3, Last_ack_recv: 61_000}, true},
		{"a bad link", unix.TCPInfo{Unacked: 3, Retransmits: 5, Last_ack_recv: 20_000}, false},
		{"vanished", unix.TCPInfo{Unacked: 3, Retransmits: 8, Last_ack_recv: 61_000}, true},
	} {
		if got := owes(&tt.info); got != tt.want {
			t.Errorf("%s: gone is %v", tt.name, got)
		}
	}
}

func TestALivePeerIsNotGone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "unread"); err != nil {
		t.Fatal(err)
	}
	if gone(c.(*net.TCPConn)) {
		t.Error("gone")
	}
	c.Close()
	if gone(c.(*net.TCPConn)) {
		t.Error("a closed connection is taken for one whose peer is gone")
	}
}
