package clientproto

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	first = "\x01\xbb\x02\x0bexample.net" // example.net:443
	last  = "\x03\x0bexample.net\x01\xbb"
)

func pieces(s string) *bufio.Reader {
	return bufio.NewReader(iotest.OneByteReader(strings.NewReader(s)))
}

func TestRequestsOfVLESS(t *testing.T) {
	to := Destination{Name: "example.net", Port: 443}
	for text, want := range map[string]Request{
		"\x00\x01" + first:      {CommandTCP, to},
		"\x00\x02" + first:      {CommandUDP, to},
		"\x00\x03":              {CommandMux, Destination{}},
		"\x00\x00" + first:      {},
		"\x00\x04" + first:      {},
		"\x01a\x01" + first:     {},
		"\x00\x01\x01\xbb\x09a": {},
	} {
		r := pieces("\x00" + user + text + "rest")
		id, err := PeekVLESS(r)
		if id != mesh.UserID([]byte(user)) || err != nil {
			t.Fatalf("user %s, %v", id.Reveal(), err)
		}
		got, err := ReadVLESS(r)
		if want == (Request{}) {
			if !errors.Is(err, mesh.ErrInvalid) {
				t.Errorf("%q: %v, %v; want it refused", text, got, err)
			}
			continue
		}
		rest, _ := io.ReadAll(r)
		if got != want || err != nil || string(rest) != "rest" {
			t.Errorf("%q: %v, %v, %q left; want %v", text, got, err, rest, want)
		}
	}
	if _, err := ReadVLESS(pieces("\x01" + user + "\x00\x03")); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("version 1: %v", err)
	}
}

func TestRequestsOfTrojan(t *testing.T) {
	to := Destination{Name: "example.net", Port: 443}
	for text, want := range map[string]Request{
		"\r\n\x01" + last + "\r\n":   {CommandTCP, to},
		"\r\n\x03" + last + "\r\n":   {CommandUDP, to},
		"\r\n\x7f" + last + "\r\n":   {},
		"\r\n\x01" + last + "\n\n":   {},
		"\n\n\x01" + last + "\r\n":   {},
		"\r\n\x01\x02aa\x01\xbb\r\n": {},
	} {
		r := pieces(key + text + "rest")
		if k, err := PeekTrojan(r); k != key || err != nil {
			t.Fatalf("key %q, %v", k, err)
		}
		got, err := ReadTrojan(r)
		if want == (Request{}) {
			if !errors.Is(err, mesh.ErrInvalid) {
				t.Errorf("%q: %v, %v; want it refused", text, got, err)
			}
			continue
		}
		rest, _ := io.ReadAll(r)
		if got != want || err != nil || string(rest) != "rest" {
			t.Errorf("%q: %v, %v, %q left; want %v", text, got, err, rest, want)
		}
	}
}

func TestRequestsThatBreakOff(t *testing.T) {
	readers := map[string]func(*bufio.Reader) error{
		"\x00" + user + "\x00\x01" + first: func(r *bufio.Reader) error { _, err := ReadVLESS(r); return err },
		key + "\r\n\x01" + last + "\r\n":   func(r *bufio.Reader) error { _, err := ReadTrojan(r); return err },
		"\x05\x02\x00\x02":                 func(r *bufio.Reader) error { _, err := ReadSOCKSGreeting(r); return err },
		"\x01\x02id\x03abc":                func(r *bufio.Reader) error { _, _, err := ReadSOCKSPassword(r); return err },
		"\x05\x01\x00" + last:              func(r *bufio.Reader) error { _, err := ReadSOCKSRequest(r); return err },
		last + "\x00\x02\r\n":              func(r *bufio.Reader) error { _, _, err := ReadTrojanPacket(r); return err },
		"\x00\x02":                         func(r *bufio.Reader) error { _, err := ReadVLESSPacket(r); return err },
		"\x00\x04\x00\x01\x02\x01\x00\x09": func(r *bufio.Reader) error { _, err := ReadFrame(r); return err },
	}
	for text, read := range readers {
		if err := read(pieces(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		for n := range text {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if err := read(pieces(text[:n])); !errors.Is(err, want) {
				t.Errorf("%q: %v; want %v", text[:n], err, want)
			}
		}
	}
}

func TestSOCKS(t *testing.T) {
	for text, want := range map[string]bool{"\x05\x01\x02": true, "\x05\x02\x00\x02": true, "\x05\x01\x00": false, "\x05\x00": false} {
		if got, err := ReadSOCKSGreeting(pieces(text)); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	id, password, err := ReadSOCKSPassword(pieces("\x01\x02id\x03abc"))
	if id != "id" || password.Reveal() != "abc" || err != nil {
		t.Errorf("got %q, %q, %v", id, password.Reveal(), err)
	}
	to, err := ReadSOCKSRequest(pieces("\x05\x01\x00" + last))
	if to.String() != "example.net:443" || err != nil {
		t.Errorf("got %v, %v", to, err)
	}
	for what, read := range map[string]func() error{
		"version 4":       func() error { _, err := ReadSOCKSGreeting(pieces("\x04\x01\x00")); return err },
		"credentials":     func() error { _, _, err := ReadSOCKSPassword(pieces("\x02\x01a\x01b")); return err },
		"request version": func() error { _, err := ReadSOCKSRequest(pieces("\x04\x01\x00" + last)); return err },
		"udp associate":   func() error { _, err := ReadSOCKSRequest(pieces("\x05\x03\x00" + last)); return err },
	} {
		if err := read(); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	said := AppendSOCKSReply(AppendSOCKSVerdict(AppendSOCKSMethod(nil, true), true), SOCKSOK)
	if string(said) != "\x05\x02\x01\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00" {
		t.Errorf("said %q", said)
	}
	said = AppendSOCKSReply(AppendSOCKSVerdict(AppendSOCKSMethod(nil, false), false), SOCKSDenied)
	if string(said) != "\x05\xff\x01\x01\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00" {
		t.Errorf("said %q", said)
	}
}
