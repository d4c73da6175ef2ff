package entrytest

import (
	"encoding/binary"

	"golang.org/x/crypto/cryptobyte"
)

// Hello returns a ClientHello message for TLS 1.3 that asks for name, which is
// sent as it is, padded so that its body has size bytes if that is more than it
// needs. It is good enough to be routed, not to be answered.
func Hello(name string, size int) []byte {
	body := helloBody(name, 0)
	if pad := size - len(body) - 4; pad >= 0 {
		body = helloBody(name, pad)
	}
	msg := []byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}
	return append(msg, body...)
}

func helloBody(name string, pad int) []byte {
	var b cryptobyte.Builder
	b.AddUint16(0x0303)
	b.AddBytes(make([]byte, 32)) // random
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(make([]byte, 32)) })
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(0x1301) })
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint8(0) })
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint16(0) // server_name
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
				b.AddUint8(0)
				b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(name)) })
			})
		})
		b.AddUint16(43) // supported_versions
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte{2, 3, 4}) })
		if pad > 0 {
			b.AddUint16(21) // padding
			b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(make([]byte, pad)) })
		}
	})
	return b.BytesOrPanic()
}

// Records puts a handshake message into TLS records of at most size bytes.
func Records(msg []byte, size int) []byte {
	var out []byte
	for len(msg) > 0 {
		n := min(size, len(msg))
		out = append(out, 22, 3, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out = append(out, msg[:n]...)
		msg = msg[n:]
	}
	return out
}
