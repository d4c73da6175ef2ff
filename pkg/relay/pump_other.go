//go:build !unix

package relay

import (
	"io"
	"net"
	"sync/atomic"
)

func pumpTCP(dst io.Writer, src *net.TCPConn, count *atomic.Int64) (readErr, writeErr error) {
	return pumpAny(dst, src, count)
}
