package relay

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
)

func TestHeaderSurvivesTheWire(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    Header
	}{
		{"everything", Header{"a.example.net", "dev-1", "trace", netip.MustParseAddrPort("192.0.2.7:4711")}},
		{"no client address", Header{ServerName: "a.example.net", Device: "dev-1"}},
		{"name only", Header{ServerName: "a"}},
		{"IPv6", Header{ServerName: "a", Client: netip.MustParseAddrPort("[2001:db8::7]:4711")}},
		{"longest", Header{ServerName: strings.Repeat("a", maxServerName), Device: strings.Repeat("d", maxLabel), Trace: strings.Repeat("t", maxLabel)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := tt.h.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseHeader(b)
			if err != nil || got != tt.h {
				t.Errorf("got %+v, %v", got, err)
			}
			for n := range b {
				if _, err := ParseHeader(b[:n]); err == nil {
					t.Errorf("accepted %d of %d bytes", n, len(b))
				}
			}
		})
	}
}

func TestMappedAddressBecomesIPv4(t *testing.T) {
	b, err := Header{ServerName: "a", Client: netip.MustParseAddrPort("[::ffff:192.0.2.7]:80")}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	h, err := ParseHeader(b)
	if err != nil || h.Client != netip.MustParseAddrPort("192.0.2.7:80") {
		t.Errorf("got %v, %v", h.Client, err)
	}
	// A sender that does not unmap is read in the same way.
	mapped := proxyV2(0x21, 0x21, append(append(make([]byte, 10), 0xff, 0xff, 192, 0, 2, 7), make([]byte, 20)...), tlv(2, "a"))
	if h, err := ParseHeader(mapped); err != nil || h.Client.Addr() != netip.MustParseAddr("192.0.2.7") {
		t.Errorf("got %v, %v", h.Client, err)
	}
}

func TestWhatIsNoHeaderIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
	}{
		{"nothing", nil},
		{"version 1", []byte("PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n")},
		{"version 1 without end", []byte("PROXY " + strings.Repeat("x", 4000))},
		{"length 65535", func() []byte { b := proxyV2(0x20, 0, nil, tlv(2, "a")); b[14], b[15] = 0xff, 0xff; return b }()},
		{"longer than it says", append(proxyV2(0x20, 0, nil, tlv(2, "a")), 0)},
		{"beyond 4,096 bytes", proxyV2(0x20, 0, nil, tlv(2, "a"), tlv(0xe5, strings.Repeat("x", 4090)))},
		{"no server name", proxyV2(0x20, 0, nil, tlv(0xe0, "dev-1"))},
		{"empty server name", proxyV2(0x20, 0, nil, tlv(2, ""))},
		{"server name twice", proxyV2(0x20, 0, nil, tlv(2, "a"), tlv(2, "b"))},
		{"server name of 256 bytes", proxyV2(0x20, 0, nil, tlv(2, strings.Repeat("a", 256)))},
		{"line break in the server name", proxyV2(0x20, 0, nil, tlv(2, "a\r\nb"))},
		{"NUL in the device", proxyV2(0x20, 0, nil, tlv(2, "a"), tlv(0xe0, "d\x00"))},
		{"truncated field", append(proxyV2(0x20, 0, nil)[:15], 2, 2, 0)},
		{"unix socket", proxyV2(0x21, 0x31, make([]byte, 216), tlv(2, "a"))},
		{"UDP", proxyV2(0x21, 0x12, make([]byte, 12), tlv(2, "a"))},
		{"unknown command", proxyV2(0x2f, 0, nil, tlv(2, "a"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if h, err := ParseHeader(tt.b); err == nil {
				t.Errorf("read as %+v", h)
			}
		})
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	h, err := ParseHeader(proxyV2(0x20, 0, nil, tlv(0xee, "from later"), tlv(2, "a"), tlv(4, "padding")))
	if err != nil || h.ServerName != "a" {
		t.Errorf("got %+v, %v", h, err)
	}
}

func TestForgedFieldsAreNotSent(t *testing.T) {
	for _, h := range []Header{{}, {ServerName: "a b"}, {ServerName: "a", Trace: "x\n"}, {ServerName: strings.Repeat("a", 256)}} {
		if _, err := h.Marshal(); err == nil {
			t.Errorf("sent %+v", h)
		}
	}
}

func proxyV2(command, family byte, addrs []byte, tlvs ...[]byte) []byte {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	body := addrs
	for _, t := range tlvs {
		body = append(body, t...)
	}
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}

func tlv(typ byte, value string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{typ}, uint16(len(value))), value...)
}

func FuzzParseHeader(f *testing.F) {
	full, err := testHeader.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add(proxyV2(0x21, 0x11, make([]byte, 12), tlv(2, "a")))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		again, err := h.Marshal()
		if err != nil {
			t.Fatalf("cannot send %+v: %v", h, err)
		}
		if got, err := ParseHeader(again); err != nil || got != h {
			t.Fatalf("got %+v, %v, want %+v", got, err, h)
		}
	})
}
