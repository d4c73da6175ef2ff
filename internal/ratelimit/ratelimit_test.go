package ratelimit

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func TestALimiterForgetsBeforeItGrows(t *testing.T) {
	l := New[netip.Addr](1, 2)
	now := time.Now()
	for i := range 3 * maxTracked {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i)+1)
		if !l.Allow(netip.AddrFrom4(b), now) {
			t.Fatal("a new address was refused")
		}
	}
	if len(l.buckets) > maxTracked {
		t.Errorf("%d addresses remembered, at most %d wanted", len(l.buckets), maxTracked)
	}
}

func TestALimiterRefusesAfterTheBurstAndRecovers(t *testing.T) {
	l := New[string](1, 2)
	now := time.Now()
	for i, want := range []bool{true, true, false} {
		if got := l.Allow("x", now); got != want {
			t.Errorf("call %d: %v, want %v", i, got, want)
		}
	}
	if !l.Empty("x", now) || l.Empty("y", now) {
		t.Error("empty: want x and not y")
	}
	if !l.Allow("x", now.Add(time.Second)) {
		t.Error("a second later the next call is still refused")
	}
}

func TestOneHostIsOneAddress(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"192.0.2.7", "::ffff:192.0.2.7"},
		{"2001:db8::1", "2001:db8::ffff:1"},
		{"fe80::1%eth0", "fe80::2"},
	} {
		if a, b := Block(netip.MustParseAddr(c.a)), Block(netip.MustParseAddr(c.b)); a != b {
			t.Errorf("%s and %s count as %v and %v", c.a, c.b, a, b)
		}
	}
	if Block(netip.MustParseAddr("192.0.2.7")) == Block(netip.MustParseAddr("192.0.2.8")) {
		t.Error("two IPv4 hosts count as one")
	}
}
