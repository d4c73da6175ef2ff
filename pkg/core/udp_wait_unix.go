//go:build unix

package core

import (
	"errors"
	"syscall"
)

// pending says whether a socket has a datagram to be read, or an error.
func pending(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), nil, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
}
