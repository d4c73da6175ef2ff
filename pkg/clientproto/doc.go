// Package clientproto reads and writes what clients speak inside their TLS: VLESS, Trojan, SOCKS5,
// datagrams inside a stream, mux.cool frames (XUDP with them) and the messages of gRPC transports.
//
// Functions that read take a *bufio.Reader, hold nothing beyond the call and are bounded by the
// formats themselves: no message needs more than some 600 bytes, payload excepted, which they leave
// on the reader. How long a read may take is the caller's matter. Functions named Peek consume
// nothing, so that the bytes of whoever has no credentials can go to the web server unchanged.
//
// What is malformed is mesh.ErrInvalid. Any other error is the reader's own; a message that breaks
// off is io.ErrUnexpectedEOF, and a reader that ends before one begins is io.EOF.
package clientproto

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// MinReader is the least size of the readers that are given to this package.
const MinReader = 600

func invalid(format string, args ...any) error {
	return fmt.Errorf("clientproto: "+format+": %w", append(args, mesh.ErrInvalid)...)
}

// take consumes n bytes, which stay valid until the next read. At the start of a
// message an end is an end; inside of one it is unexpected.
func take(r *bufio.Reader, n int, inside bool) ([]byte, error) {
	b, err := r.Peek(n)
	if err != nil {
		if errors.Is(err, io.EOF) && (inside || len(b) > 0) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	_, err = r.Discard(n)
	return b, err
}
