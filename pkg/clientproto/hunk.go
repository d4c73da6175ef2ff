package clientproto

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
)

const (
	// maxMessage is what gRPC takes at most by default.
	maxMessage = 4 << 20
	// maxHunk is how much this side puts into one message.
	maxHunk = 32 << 10

	grpcPrefix = 5
	dataTag    = 1<<3 | 2 // field 1, bytes
)

// HunkReader reads the bytes out of a stream of gRPC messages of the "gun"
// transport, of Tun and TunMulti alike.
//
//	compressed(1) length(4) { field 1: bytes }...
type HunkReader struct {
	r       *bufio.Reader
	message int // bytes left of the message
	data    int // of these, bytes left of the field
}

// NewHunkReader reads from r.
func NewHunkReader(r io.Reader) *HunkReader {
	return &HunkReader{r: bufio.NewReader(r)}
}

// Read implements io.Reader.
func (h *HunkReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for h.data == 0 {
		if err := h.next(); err != nil {
			return 0, err
		}
	}
	n, err := h.r.Read(p[:min(len(p), h.data)])
	h.data -= n
	h.message -= n
	return n, unexpected(err)
}

// next goes to the next field of data, through at most one message head.
func (h *HunkReader) next() error {
	if h.message == 0 {
		return h.head()
	}
	tag, err := h.varint()
	if err != nil {
		return err
	}
	if tag == dataTag {
		h.data, err = h.length()
		return err
	}
	return h.skip(tag & 7)
}

func (h *HunkReader) head() error {
	b, err := take(h.r, grpcPrefix, false)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(b[1:])
	switch {
	case b[0] != 0:
		return invalid("grpc: a compressed message")
	case n > maxMessage:
		return invalid("grpc: a message of %d bytes", n)
	}
	h.message = int(n)
	return nil
}

// skip passes over a field that is not known, by its wire type.
func (h *HunkReader) skip(wire uint64) error {
	n := 0
	var err error
	switch wire {
	case 0:
		_, err = h.varint()
	case 1:
		n = 8
	case 2:
		n, err = h.length()
	case 5:
		n = 4
	default:
		return invalid("grpc: unknown wire type %d", wire)
	}
	if err != nil {
		return err
	}
	if n > h.message {
		return invalid("grpc: a field longer than its message")
	}
	h.message -= n
	_, err = h.r.Discard(n)
	return unexpected(err)
}

// length reads how long a field is that lies inside the message.
func (h *HunkReader) length() (int, error) {
	n, err := h.varint()
	if err == nil && n > uint64(h.message) {
		err = invalid("grpc: a field longer than its message")
	}
	return int(min(n, math.MaxInt32)), err
}

func (h *HunkReader) varint() (uint64, error) {
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		if h.message == 0 {
			return 0, invalid("grpc: a number beyond its message")
		}
		c, err := h.r.ReadByte()
		if err != nil {
			return 0, unexpected(err)
		}
		h.message--
		x |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return x, nil
		}
	}
	return 0, invalid("grpc: a number of more than 64 bits")
}

// unexpected is for reads inside a message.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// AppendHunk writes one message with data in it. It suits Tun and TunMulti.
func AppendHunk(b, data []byte) []byte {
	field := binary.AppendUvarint(make([]byte, 0, 8), uint64(len(data)))
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(1+len(field)+len(data)))
	b = append(append(b, dataTag), field...)
	return append(b, data...)
}

// HunkWriter writes bytes as messages; each Write reaches W at once.
type HunkWriter struct {
	W io.Writer
	// Flush, unless nil, follows each Write.
	Flush func() error

	scratch []byte
}

// Write implements io.Writer.
func (h *HunkWriter) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(n+maxHunk, len(p))]
		h.scratch = AppendHunk(h.scratch[:0], part)
		if _, err := h.W.Write(h.scratch); err != nil {
			return n, err
		}
		n += len(part)
	}
	if h.Flush == nil {
		return len(p), nil
	}
	return len(p), h.Flush()
}
