package relay

import (
	"encoding/binary"
	"fmt"
)

// The frame types. The receiver skips types from typeReserved on.
const (
	typeHello    = 1
	typeOpen     = 2
	typeAccept   = 3
	typeRefuse   = 4
	typeData     = 5
	typeCredit   = 6
	typeFin      = 7
	typeReset    = 8
	typePing     = 9
	typePong     = 10
	typeGoodbye  = 11
	typeReserved = 128
)

const (
	headerLen  = 8
	maxPayload = 16 << 10
	maxOpen    = 4 << 10
	maxCredit  = 16 << 20
	helloLen   = 12

	// maxData is what we put into one DATA frame: with its header it fills one TLS record.
	maxData = maxPayload - headerLen
)

// frame is a frame's header.
type frame struct {
	typ    byte
	length int
	stream uint32
}

func parseFrame(b []byte) frame {
	n := binary.BigEndian.Uint32(b)
	return frame{typ: b[0], length: int(n & 0xffffff), stream: binary.BigEndian.Uint32(b[4:])}
}

// appendFrame appends a frame's header; the payload of n bytes follows.
func appendFrame(b []byte, typ byte, stream uint32, n int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(typ)<<24|uint32(n))
	return binary.BigEndian.AppendUint32(b, stream)
}

// check judges the header by itself: the length its type allows, and whether it belongs to a
// stream or to the session.
func (f frame) check() error {
	lo, hi, session := f.rule()
	switch {
	case f.length < lo || f.length > hi:
		return protocolErrorf("frame type %d with %d bytes", f.typ, f.length)
	case f.typ < typeReserved && session != (f.stream == 0):
		return protocolErrorf("frame type %d on stream %d", f.typ, f.stream)
	}
	return nil
}

// rule returns the least and greatest payload and whether the frame is the session's own.
func (f frame) rule() (lo, hi int, session bool) {
	switch f.typ {
	case typeHello:
		return helloLen, maxPayload, true
	case typeOpen:
		return 16, maxOpen, false
	case typeRefuse:
		return 2, maxPayload, false
	case typeAccept, typeFin:
		return 0, 0, false
	case typeData:
		return 1, maxPayload, false
	case typeCredit:
		return 4, 4, false
	case typeReset:
		return 1, 1, false
	case typePing, typePong:
		return 8, 8, true
	case typeGoodbye:
		return 1, 1, true
	}
	if f.typ >= typeReserved {
		return 0, maxPayload, false
	}
	return 1, 0, false // unknown: no length is right
}

// protocolError says that the peer broke the protocol. It ends the session.
type protocolError string

func (e protocolError) Error() string { return "peer broke the protocol: " + string(e) }

func protocolErrorf(format string, args ...any) error {
	return protocolError(fmt.Sprintf(format, args...))
}
