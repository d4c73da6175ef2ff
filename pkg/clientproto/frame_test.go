package clientproto

import (
	"errors"
	"io"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

var (
	named = destinations["example.net:65535"]
	plain = destinations["192.0.2.7:443"]
	six   = destinations["[2001:db8::7]:53"]
)

// The bytes are those that Xray 26.3.27 and sing-box 1.14.1 send.
var frames = map[string]Frame{
	"\x00\x14\x00\x07\x01\x00\x01\xff\xff\x02\x0bexample.net":                                                          {Session: 7, Kind: FrameNew, To: named},
	"\x00\x0c\x00\x07\x01\x01\x01\x01\xbb\x01\xc0\x00\x02\x07\x00\x05":                                                 {Session: 7, Kind: FrameNew, To: plain, Data: true, Size: 5},
	"\x00\x0c\x00\x00\x01\x01\x02\x01\xbb\x01\xc0\x00\x02\x07\x00\x00":                                                 {Kind: FrameNew, UDP: true, To: plain, Data: true},
	"\x00\x04\x01\x00\x02\x01\xff\xff":                                                                                 {Session: 256, Kind: FrameKeep, Data: true, Size: 65535},
	"\x00\x18\x00\x00\x02\x01\x02\x00\x35\x03\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x01": {Kind: FrameKeep, UDP: true, To: six, Data: true, Size: 1},
	"\x00\x04\x00\x01\x03\x00":                                                                                         {Session: 1, Kind: FrameEnd},
	"\x00\x04\x00\x01\x03\x02":                                                                                         {Session: 1, Kind: FrameEnd, Failed: true},
	"\x00\x04\x00\x01\x04\x00":                                                                                         {Session: 1, Kind: FrameKeepAlive},
}

func TestFramesReadAsTheyWereWritten(t *testing.T) {
	for text, want := range frames {
		if b := AppendFrame([]byte("before"), want); string(b) != "before"+text {
			t.Errorf("%+v: wrote %q; want %q", want, b[len("before"):], text)
		}
		r := pieces(text + "rest")
		got, err := ReadFrame(r)
		rest, _ := io.ReadAll(r)
		if got != want || err != nil || string(rest) != "rest" {
			t.Errorf("%q: %+v, %v, %q left; want %+v", text, got, err, rest, want)
		}
	}
}

func TestFramesWithPadding(t *testing.T) {
	for text, want := range map[string]Frame{
		"\x00\x14\x00\x00\x01\x01\x02\x01\xbb\x01\xc0\x00\x02\x07\x01\x02\x03\x04\x05\x06\x07\x08\x01\x00": {Kind: FrameNew, UDP: true, To: plain, Data: true, Size: 256},
		"\x00\x08\x00\x01\x02\x01\x00\x00\x00\x00\x00\x03":                                                 {Session: 1, Kind: FrameKeep, Data: true, Size: 3},
		"\x00\x06\x00\x01\x03\x00\x02\x02":                                                                 {Session: 1, Kind: FrameEnd},
		"\x00\x0d\x00\x01\x01\x00\x02\x01\xbb\x01\xc0\x00\x02\x07\x00":                                     {Session: 1, Kind: FrameNew, UDP: true, To: plain},
		"\x00\x0d\x00\x01\x02\x00\x02\x01\xbb\x01\xc0\x00\x02\x07\x00":                                     {Session: 1, Kind: FrameKeep, UDP: true, To: plain},
	} {
		if got, err := ReadFrame(pieces(text)); got != want || err != nil {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestFramesThatMakeNoSense(t *testing.T) {
	for what, text := range map[string]string{
		"too short":       "\x00\x03\x00\x01\x02",
		"too long":        "\x02\x01" + string(make([]byte, 600)),
		"unknown kind":    "\x00\x04\x00\x01\x05\x00",
		"kind 0":          "\x00\x04\x00\x01\x00\x00",
		"new to nowhere":  "\x00\x04\x00\x01\x01\x00",
		"unknown network": "\x00\x0c\x00\x01\x01\x00\x03\x01\xbb\x01\xc0\x00\x02\x07",
		"cut destination": "\x00\x0b\x00\x01\x01\x00\x01\x01\xbb\x01\xc0\x00\x02",
		"cut source":      "\x00\x0b\x00\x01\x02\x00\x02\x01\xbb\x01\xc0\x00\x02",
		"unknown address": "\x00\x0c\x00\x01\x01\x00\x01\x01\xbb\x07\xc0\x00\x02\x07",
	} {
		if got, err := ReadFrame(pieces(text)); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}
