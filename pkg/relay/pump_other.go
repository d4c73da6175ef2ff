//go:build !unix

package relay

import (
	"io"
	"net"
)

func pumpTCP(dst io.Writer, src *net.TCPConn, count *tally) (readErr, writeErr error) {
	return pumpAny(dst, src, count)
}
