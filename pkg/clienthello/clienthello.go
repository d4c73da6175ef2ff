// Package clienthello reads the server name from the first bytes of a TLS connection without
// taking part in the handshake.
//
// A ClientHello may be spread over several TLS records and over any number of TCP segments, and
// with post-quantum key shares it usually is larger than one packet. Peek therefore decides on
// nothing but the complete message. What it may hold is bounded: a message body of at most 16 KiB
// in at most 64 KiB of raw bytes. How long it may take is the caller's matter: set a read deadline
// on the connection that covers the whole call.
//
// Whether a name is a valid host name is not checked here; the name is what the client sent.
package clienthello

import (
	"errors"
	"fmt"
	"io"
)

const (
	// MaxMessage is the largest ClientHello body that is accepted, in bytes.
	MaxMessage = 16 << 10
	// MaxRaw is the largest number of bytes that is read, record headers included.
	MaxRaw = 64 << 10

	firstRead = 2 << 10 // a hello with a post-quantum key share fits
)

// Hello is what a client said first.
type Hello struct {
	// ServerName is the host_name of the server_name extension, as it was sent.
	ServerName string
	// ALPN lists the protocols the client offers, in its order.
	ALPN []string
	// Raw is every byte that was read. It has to be passed on unchanged.
	Raw []byte
}

// Peek reads from r until the ClientHello is complete and returns what it says. It calls Read no
// more often than that takes; bytes that the last Read returned beyond the hello are part of Raw.
// Bytes that cannot become a TLS connection are refused at the first one that shows it.
//
// The error is an *Error if the client sent something unacceptable, otherwise it wraps what r
// returned (io.ErrUnexpectedEOF if the client closed early). Raw is set in either case.
func Peek(r io.Reader) (Hello, error) {
	var sc scanner
	raw := make([]byte, 0, firstRead)
	for {
		n, err := r.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		done, scanErr := sc.scan(raw)
		switch {
		case scanErr != nil:
			return Hello{Raw: raw}, scanErr
		case done:
			h, err := parse(sc.message(raw))
			h.Raw = raw
			return h, err
		case errors.Is(err, io.EOF):
			return Hello{Raw: raw}, fmt.Errorf("clienthello: read: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return Hello{Raw: raw}, fmt.Errorf("clienthello: read: %w", err)
		case len(raw) == MaxRaw:
			return Hello{Raw: raw}, refuse(TooBig, "no complete message in %d bytes", MaxRaw)
		}
		raw = grow(raw)
	}
}

// grow makes room for at least one more byte by doubling, so that what is held stays near what was
// received.
func grow(raw []byte) []byte {
	if len(raw) < cap(raw) {
		return raw
	}
	bigger := make([]byte, len(raw), min(2*cap(raw), MaxRaw))
	copy(bigger, raw)
	return bigger
}
