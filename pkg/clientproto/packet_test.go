package clientproto

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestPacketsReadAsTheyWereWritten(t *testing.T) {
	sizes := []int{0, 1, 1500, MaxPacket}
	var vless, trojan bytes.Buffer
	from := destinations["[2001:db8::7]:53"]
	for _, n := range sizes {
		payload := bytes.Repeat([]byte{'a'}, n)
		vless.Write(append(AppendVLESSPacket(nil, n), payload...))
		trojan.Write(append(AppendTrojanPacket(nil, from, n), payload...))
	}
	v, tr := bufio.NewReader(&vless), bufio.NewReader(&trojan)
	for _, want := range sizes {
		n, err := ReadVLESSPacket(v)
		if n != want || err != nil {
			t.Errorf("vless: %d, %v; want %d", n, err, want)
		}
		to, m, err := ReadTrojanPacket(tr)
		if m != want || to != from || err != nil {
			t.Errorf("trojan: %d for %v, %v; want %d", m, to, err, want)
		}
		for _, r := range []*bufio.Reader{v, tr} {
			if _, err := r.Discard(want); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := ReadVLESSPacket(v); !errors.Is(err, io.EOF) {
		t.Errorf("vless: after the last: %v", err)
	}
	if _, _, err := ReadTrojanPacket(tr); !errors.Is(err, io.EOF) {
		t.Errorf("trojan: after the last: %v", err)
	}
	if _, _, err := ReadTrojanPacket(pieces(last + "\x00\x02\n\n")); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("trojan: without a line end: %v", err)
	}
}
