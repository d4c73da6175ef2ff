package clientproto

import (
	"bufio"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshctl/meshctl/pkg/mesh"
)

var destinations = map[string]Destination{
	"192.0.2.7:443":                    {Addr: netip.MustParseAddr("192.0.2.7"), Port: 443},
	"[2001:db8::7]:53":                 {Addr: netip.MustParseAddr("2001:db8::7"), Port: 53},
	"example.net:65535":                {Name: "example.net", Port: 65535},
	"пример.рф:1":                      {Name: "пример.рф", Port: 1},
	strings.Repeat("n", 255) + ":8080": {Name: strings.Repeat("n", 255), Port: 8080},
}

func TestDestinationsReadAsTheyWereWritten(t *testing.T) {
	for text, want := range destinations {
		if want.String() != text {
			t.Errorf("%q prints as %q", text, want)
		}
		for _, form := range []Form{PortFirst, PortLast} {
			b := form.Append(nil, want)
			got, rest, err := form.Parse(append(b, "rest"...))
			if got != want || string(rest) != "rest" || err != nil {
				t.Errorf("form %d: parsed %v, %q, %v; want %v", form, got, rest, err, want)
			}
			r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(string(b) + "rest")))
			if got, err := form.Read(r); got != want || err != nil {
				t.Errorf("form %d: read %v, %v; want %v", form, got, err, want)
			}
			if rest, err := io.ReadAll(r); string(rest) != "rest" || err != nil {
				t.Errorf("form %d: left %q, %v", form, rest, err)
			}
			cutAnywhere(t, form, b)
		}
	}
}

func cutAnywhere(t *testing.T, form Form, b []byte) {
	t.Helper()
	for n := range b {
		if _, _, err := form.Parse(b[:n]); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("form %d: parsed %d of %d bytes: %v", form, n, len(b), err)
		}
		if _, err := form.Read(bufio.NewReader(strings.NewReader(string(b[:n])))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("form %d: read %d of %d bytes: %v", form, n, len(b), err)
		}
	}
}

func TestDestinationsOfOtherKindsAreRefused(t *testing.T) {
	for what, b := range map[string]string{
		"type 0":             "\x00\x50\x00\x04aaaa",
		"type 4, port first": "\x00\x50\x04aaaabbbbccccdddd",
		"an empty name":      "\x00\x50\x02\x00",
	} {
		if _, _, err := PortFirst.Parse([]byte(b)); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := PortLast.Parse([]byte("\x02aaaa\x00\x50")); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("type 2, port last: %v", err)
	}
}

func TestIPv4InsideIPv6IsIPv4(t *testing.T) {
	mapped := netip.MustParseAddr("::ffff:192.0.2.7")
	d, _, err := PortLast.Parse(PortLast.Append(nil, Destination{Addr: mapped, Port: 80}))
	if d.String() != "192.0.2.7:80" || err != nil {
		t.Errorf("got %v, %v", d, err)
	}
	if d := To(netip.AddrPortFrom(mapped, 80)); d.String() != "192.0.2.7:80" {
		t.Errorf("To gave %v", d)
	}
}
