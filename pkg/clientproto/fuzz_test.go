package clientproto

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// expected are the errors that a reader may give for bytes that came from memory.
func expected(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, mesh.ErrInvalid) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("unexpected kind of error: %v", err)
	}
}

// Whatever Sniff says, nothing is lost, and pieces make no other guess than the
// whole, except where a line end came before the rest.
func FuzzSniff(f *testing.F) {
	f.Add([]byte("\x00" + user + "\x00\x01" + first))
	f.Add([]byte(key + "\r\n\x01" + last + "\r\n"))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Add([]byte("CONNECT a:443 HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x05\x01\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, piecewise := bufio.NewReader(bytes.NewReader(b)), pieces(string(b))
		g1, err1 := Sniff(whole)
		g2, err2 := Sniff(piecewise)
		if (err1 != nil) != (len(b) == 0) || (err2 != nil) != (len(b) == 0) {
			t.Errorf("errors %v, %v for %d bytes", err1, err2, len(b))
		}
		if g1 != g2 && !(g1 == GuessVLESS && bytes.IndexByte(b[:vlessIntro], '\n') >= 0) {
			t.Errorf("guessed %v at once and %v in pieces", g1, g2)
		}
		for _, r := range []*bufio.Reader{whole, piecewise} {
			if rest, err := io.ReadAll(r); !bytes.Equal(rest, b) || err != nil {
				t.Errorf("%d of %d bytes are left, %v", len(rest), len(b), err)
			}
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x00" + user + "\x00\x01" + first + "rest"))
	f.Add([]byte("\x00" + user + "\x00\x03"))
	f.Add([]byte(key + "\r\n\x03" + last + "\r\n" + last + "\x00\x02\r\nab"))
	f.Add([]byte("\x05\x01\x02"))
	f.Add([]byte("\x01\x02id\x03abc"))
	f.Add([]byte("\x05\x01\x00" + last))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ReadVLESS(pieces(string(b)))
		expected(t, err)
		if err == nil && v.Command != CommandMux {
			written := PortFirst.Append(bytes.Clone(b[:19]), v.To)
			if again, err := ReadVLESS(pieces(string(written))); again != v || err != nil {
				t.Errorf("%+v became %+v, %v", v, again, err)
			}
		}
		tr, err := ReadTrojan(pieces(string(b)))
		expected(t, err)
		if err == nil && tr.Command != CommandTCP && tr.Command != CommandUDP {
			t.Errorf("command %q", tr.Command)
		}
		_, err = ReadSOCKSGreeting(pieces(string(b)))
		expected(t, err)
		_, _, err = ReadSOCKSPassword(pieces(string(b)))
		expected(t, err)
		_, err = ReadSOCKSRequest(pieces(string(b)))
		expected(t, err)
	})
}

func FuzzPackets(f *testing.F) {
	f.Add([]byte("\x00\x02ab\x00\x00"))
	f.Add([]byte(last + "\x00\x02\r\nab"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := pieces(string(b))
		for {
			n, err := ReadVLESSPacket(r)
			expected(t, err)
			if _, err2 := r.Discard(n); err != nil || err2 != nil {
				break
			}
		}
		r = pieces(string(b))
		for {
			to, n, err := ReadTrojanPacket(r)
			expected(t, err)
			if err == nil {
				got, m, err := ReadTrojanPacket(pieces(string(AppendTrojanPacket(nil, to, n))))
				if got != to || m != n || err != nil {
					t.Errorf("%v, %d became %v, %d, %v", to, n, got, m, err)
				}
			}
			if _, err2 := r.Discard(n); err != nil || err2 != nil {
				break
			}
		}
	})
}

func FuzzFrame(f *testing.F) {
	for text := range frames {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := pieces(string(b))
		for {
			got, err := ReadFrame(r)
			expected(t, err)
			if err != nil {
				return
			}
			if again, err := ReadFrame(pieces(string(AppendFrame(nil, got)))); again != got || err != nil {
				t.Errorf("%+v became %+v, %v", got, again, err)
			}
			if _, err := r.Discard(got.Size); err != nil {
				return
			}
		}
	})
}

func FuzzHunks(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x09\x0a\x01a\x0a\x00\x0a\x02bc"))
	f.Add([]byte("\x00\x00\x00\x00\x18\x0a\x01a\x11abcdefgh\x15abcd\x12\x01z\x0a\x02bc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := io.ReadAll(NewHunkReader(bytes.NewReader(b)))
		expected(t, err)
		if len(got) > len(b) {
			t.Errorf("%d bytes out of %d", len(got), len(b))
		}
		again, err := io.ReadAll(NewHunkReader(bytes.NewReader(AppendHunk(nil, b))))
		if !bytes.Equal(again, b) || err != nil && len(b) <= maxMessage-8 {
			t.Errorf("%d bytes became %d, %v", len(b), len(again), err)
		}
	})
}
