package clienthello

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzPeek checks that bytes from a stranger neither panic nor are held beyond the limit, that the
// answer does not depend on segmentation, and that an accepted name is the one crypto/tls reads,
// if it accepts the hello at all.
func FuzzPeek(f *testing.F) {
	f.Add(records(message(sni(name)), 3))
	f.Add(realHello(f, postQuantum(name)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := Peek(bytes.NewReader(raw))
		if len(h.Raw) > MaxRaw || !bytes.HasPrefix(raw, h.Raw) {
			t.Fatalf("%d raw bytes of %d", len(h.Raw), len(raw))
		}
		slow, slowErr := Peek(&chunks{raw, 1})
		if h.ServerName != slow.ServerName || (err == nil) != (slowErr == nil) {
			t.Fatalf("whole: %q %v, byte by byte: %q %v", h.ServerName, err, slow.ServerName, slowErr)
		}
		if err != nil {
			return
		}
		if info := standardParse(t, raw); info != nil && info.ServerName != h.ServerName {
			t.Fatalf("got %q, crypto/tls reads %q", h.ServerName, info.ServerName)
		}
	})
}

func BenchmarkPeek(b *testing.B) {
	hello := realHello(b, postQuantum(name))
	for _, bb := range []struct {
		name string
		raw  []byte
	}{
		{"one record", hello},
		{"records of 100", reframe(hello, 100)},
		{"not TLS", []byte("GET / HTTP/1.1\r\n")},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Peek(bytes.NewReader(bb.raw)); err != nil {
					if _, refused := errors.AsType[*Error](err); !refused {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
