package clientproto

import (
	"bufio"
	"encoding/binary"
)

// FrameKind is what a mux.cool frame does with its session.
type FrameKind byte

// Kinds of frames.
const (
	FrameNew       FrameKind = 1 // opens a session
	FrameKeep      FrameKind = 2 // carries data
	FrameEnd       FrameKind = 3 // ends it in both directions
	FrameKeepAlive FrameKind = 4 // means nothing
)

const (
	optionData  = 1
	optionError = 2

	networkTCP = 1
	networkUDP = 2

	minMeta = 4
	maxMeta = 512
)

// Frame is one frame of mux.cool; XUDP is its session of datagrams. Further bytes
// in its head have no meaning here: padding, or the number by which Xray keeps a
// port of its server over several connections.
//
//	length(2) session(2) kind(1) options(1)
//	with FrameNew, and FrameKeep of a datagram: network(1) port first destination
//	with the option of data: length(2) payload
type Frame struct {
	Session uint16
	Kind    FrameKind
	Failed  bool // with FrameEnd: not because all was said
	UDP     bool // To is of a datagram
	// To is where FrameNew connects, or where a datagram goes or, to the client,
	// comes from. Without it a datagram belongs to the To of FrameNew.
	To Destination
	// Data says that Size bytes of payload follow, which may be none.
	Data bool
	Size int
}

// ReadFrame reads a frame and leaves its payload on r.
func ReadFrame(r *bufio.Reader) (Frame, error) {
	b, err := take(r, 2, false)
	if err != nil {
		return Frame{}, err
	}
	n := int(binary.BigEndian.Uint16(b))
	if n < minMeta || n > maxMeta {
		return Frame{}, invalid("mux: frame of %d bytes", n)
	}
	if b, err = take(r, n, true); err != nil {
		return Frame{}, err
	}
	f, err := parseFrame(b)
	if err != nil || !f.Data {
		return f, err
	}
	if b, err = take(r, 2, true); err != nil {
		return Frame{}, err
	}
	f.Size = int(binary.BigEndian.Uint16(b))
	return f, nil
}

func parseFrame(b []byte) (Frame, error) {
	f := Frame{
		Session: binary.BigEndian.Uint16(b),
		Kind:    FrameKind(b[2]),
		Data:    b[3]&optionData != 0,
		Failed:  b[3]&optionError != 0,
	}
	b = b[minMeta:]
	switch f.Kind {
	case FrameNew:
		if len(b) == 0 || b[0] != networkTCP && b[0] != networkUDP {
			return Frame{}, invalid("mux: unknown network")
		}
		err := f.parseTo(b)
		return f, err
	case FrameKeep:
		if len(b) > 0 && b[0] == networkUDP {
			err := f.parseTo(b)
			return f, err
		}
	case FrameEnd, FrameKeepAlive:
	default:
		return Frame{}, invalid("mux: unknown kind %d of frame", f.Kind)
	}
	return f, nil
}

func (f *Frame) parseTo(b []byte) (err error) {
	f.UDP = b[0] == networkUDP
	f.To, _, err = PortFirst.Parse(b[1:])
	return err
}

// AppendFrame writes f up to its payload.
func AppendFrame(b []byte, f Frame) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(append(b, 0, 0), f.Session)
	b = append(b, byte(f.Kind), f.options())
	switch {
	case f.Kind == FrameNew && !f.UDP:
		b = PortFirst.Append(append(b, networkTCP), f.To)
	case f.UDP:
		b = PortFirst.Append(append(b, networkUDP), f.To)
	}
	binary.BigEndian.PutUint16(b[start:], uint16(len(b)-start-2))
	if f.Data {
		b = binary.BigEndian.AppendUint16(b, uint16(f.Size))
	}
	return b
}

func (f Frame) options() (o byte) {
	if f.Data {
		o |= optionData
	}
	if f.Failed {
		o |= optionError
	}
	return o
}
