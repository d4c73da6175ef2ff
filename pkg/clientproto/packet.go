package clientproto

import (
	"bufio"
	"encoding/binary"
)

// MaxPacket is the largest payload that the framings of datagrams can say.
const MaxPacket = 1<<16 - 1

// MaxDatagram is the largest payload that clients are given: Xray ends a
// connection over a larger one.
const MaxDatagram = 8 << 10

// ReadVLESSPacket reads length(2) and leaves so many bytes of payload on r.
func ReadVLESSPacket(r *bufio.Reader) (int, error) {
	b, err := take(r, 2, false)
	if err != nil {
		return 0, err
	}
	return int(binary.BigEndian.Uint16(b)), nil
}

// AppendVLESSPacket writes what comes before a payload of n bytes.
func AppendVLESSPacket(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint16(b, uint16(n))
}

// ReadTrojanPacket reads what comes before a payload, says where that goes, and
// leaves n bytes of it on r.
//
//	port last destination, length(2) CR LF payload
func ReadTrojanPacket(r *bufio.Reader) (to Destination, n int, err error) {
	if to, err = PortLast.read(r, false); err != nil {
		return Destination{}, 0, err
	}
	b, err := take(r, 2, true)
	if err != nil {
		return Destination{}, 0, err
	}
	n = int(binary.BigEndian.Uint16(b))
	return to, n, lineEnd(r, "trojan: no line end after the length")
}

// AppendTrojanPacket writes what comes before a payload of n bytes.
func AppendTrojanPacket(b []byte, from Destination, n int) []byte {
	b = binary.BigEndian.AppendUint16(PortLast.Append(b, from), uint16(n))
	return append(b, '\r', '\n')
}
