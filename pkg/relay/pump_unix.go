//go:build unix

package relay

import (
	"io"
	"net"
	"syscall"
)

// pumpTCP copies from a TCP connection. While it waits for bytes it holds no buffer.
func pumpTCP(dst io.Writer, src *net.TCPConn, count *tally) (readErr, writeErr error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return err, nil
	}
	var buf *[copySize]byte
	var n int
	var readFault error
	read := func(fd uintptr) bool {
		buf = copyPool.Get().(*[copySize]byte)
		for {
			n, readFault = syscall.Read(int(fd), buf[:])
			switch readFault {
			case syscall.EINTR:
				continue
			case syscall.EAGAIN:
				copyPool.Put(buf)
				return false // to be called again when it is readable
			}
			return true
		}
	}
	for {
		if err := raw.Read(read); err != nil {
			return err, nil
		}
		switch {
		case readFault != nil:
			readErr = &net.OpError{Op: "read", Net: "tcp", Err: readFault}
		case n == 0:
			readErr = io.EOF
		default:
			writeErr = put(dst, buf[:n], count)
		}
		copyPool.Put(buf)
		if readErr != nil || writeErr != nil {
			return readErr, writeErr
		}
	}
}
