package clientproto

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestHunksCarryBytes(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 16 << 10, maxHunk, maxHunk + 1, 1 << 20} {
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		var wire bytes.Buffer
		flushed := 0
		w := HunkWriter{W: &wire, Flush: func() error { flushed++; return nil }}
		if n, err := w.Write(want); n != size || err != nil || flushed != 1 {
			t.Fatalf("%d bytes: wrote %d, %v, flushed %d times", size, n, err, flushed)
		}
		if err := iotest.TestReader(NewHunkReader(&wire), want); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestHunksInEveryForm(t *testing.T) {
	for what, text := range map[string]string{
		"one field":        "\x00\x00\x00\x00\x05\x0a\x03abc",
		"TunMulti":         "\x00\x00\x00\x00\x09\x0a\x01a\x0a\x00\x0a\x02bc",
		"a number between": "\x00\x00\x00\x00\x0a\x0a\x01a\x10\x96\x01\x0a\x02bc",
		"fields unknown":   "\x00\x00\x00\x00\x18\x0a\x01a\x11abcdefgh\x15abcd\x12\x01z\x0a\x02bc",
		"empty messages":   "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x0a\x00\x00\x00\x00\x00\x05\x0a\x03abc",
		"a long length":    "\x00\x00\x00\x00\x06\x0a\x83\x00abc",
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := io.ReadAll(NewHunkReader(r)); string(got) != "abc" || err != nil {
				t.Errorf("%s: %q, %v", what, got, err)
			}
		}
	}
}

func TestHunksThatMakeNoSense(t *testing.T) {
	for what, text := range map[string]string{
		"compressed":              "\x01\x00\x00\x00\x05\x0a\x03abc",
		"too large":               "\x00\x00\x40\x00\x01\x0a",
		"field beyond message":    "\x00\x00\x00\x00\x05\x0a\x04abcd",
		"unknown beyond message":  "\x00\x00\x00\x00\x03\x12\x04abcd",
		"fixed beyond message":    "\x00\x00\x00\x00\x03\x11abcdefgh",
		"tag without a length":    "\x00\x00\x00\x00\x01\x0a\x03abc",
		"a group":                 "\x00\x00\x00\x00\x02\x0b\x0c",
		"a number without an end": "\x00\x00\x00\x00\x0c\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	} {
		if got, err := io.ReadAll(NewHunkReader(strings.NewReader(text))); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	whole := "\x00\x00\x00\x00\x05\x0a\x03abc"
	for n := 1; n < len(whole); n++ {
		if _, err := io.ReadAll(NewHunkReader(strings.NewReader(whole[:n]))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", whole[:n], err)
		}
	}
}
