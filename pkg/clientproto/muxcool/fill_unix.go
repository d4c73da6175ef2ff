//go:build unix

package muxcool

import (
	"io"
	"net"
	"syscall"
)

// fill reads from c behind the first head bytes of a buffer that it takes when
// there is something to read. The buffer is to be put back.
func fill(c net.Conn, head int) (buf *[]byte, n int, err error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return fillWaiting(c, head)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return buffer(record), 0, err
	}
	var fault error
	err = raw.Read(func(fd uintptr) bool {
		buf = buffer(record)
		for {
			n, fault = syscall.Read(int(fd), (*buf)[head:])
			switch fault {
			case syscall.EINTR:
				continue
			case syscall.EAGAIN:
				free(buf)
				buf = nil
				return false // to be called again when there is something
			}
			return true
		}
	})
	switch {
	case buf == nil:
		buf, n = buffer(record), 0
	case fault != nil:
		n, err = 0, &net.OpError{Op: "read", Net: "tcp", Err: fault}
	case n == 0 && err == nil:
		err = io.EOF
	}
	return buf, n, err
}
