package clientproto

import (
	"bufio"
	"bytes"
	"io"
	"testing"
)

// Each parses what a client sends first, from a reader that is used again.
func BenchmarkRequest(b *testing.B) {
	for name, text := range map[string]string{
		"VLESS":  "\x00" + user + "\x00\x01" + first,
		"Trojan": key + "\r\n\x01" + last + "\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			src := bytes.NewReader([]byte(text))
			r := bufio.NewReader(src)
			for b.Loop() {
				src.Reset([]byte(text))
				r.Reset(src)
				g, err := Sniff(r)
				if err != nil {
					b.Fatal(err)
				}
				if g == GuessVLESS {
					_, err = ReadVLESS(r)
				} else {
					_, err = ReadTrojan(r)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFrame(b *testing.B) {
	b.ReportAllocs()
	wire := AppendFrame(nil, Frame{Kind: FrameKeep, UDP: true, To: plain, Data: true, Size: 1200})
	wire = append(wire, make([]byte, 1200)...)
	b.SetBytes(int64(len(wire)))
	src := bytes.NewReader(nil)
	r := bufio.NewReader(src)
	for b.Loop() {
		src.Reset(wire)
		r.Reset(src)
		f, err := ReadFrame(r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.Discard(f.Size); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHunks(b *testing.B) {
	data := make([]byte, 16<<10)
	wire := AppendHunk(nil, data)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		src := bytes.NewReader(nil)
		h := NewHunkReader(src)
		for b.Loop() {
			src.Reset(wire)
			if _, err := io.ReadFull(h, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		h := &HunkWriter{W: io.Discard}
		for b.Loop() {
			if _, err := h.Write(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
