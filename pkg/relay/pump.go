package relay

import (
	"io"
	"net"
	"sync/atomic"
)

const (
	copySize  = 4 * maxData // what one read may take in, in whole frames
	burstSize = 8 << 10     // a shorter read says that a burst is over
)

// tally counts the bytes of one direction, for itself and for whoever shares a Meter.
type tally struct {
	n      int64
	shared *atomic.Int64
}

func (t *tally) add(n int64) {
	t.n += n
	t.shared.Add(n)
}

// pump copies from src to dst until src ends. It holds a large buffer only while bytes move, since
// most connections are quiet most of the time. readErr is nil at the end of src.
func pump(dst, src Half, count *tally) (readErr, writeErr error) {
	switch src := src.(type) {
	case *Stream:
		readErr, writeErr = src.copyTo(dst, count)
	case *net.TCPConn:
		readErr, writeErr = pumpTCP(dst, src, count)
	default:
		readErr, writeErr = pumpAny(dst, src, count)
	}
	if readErr == io.EOF {
		readErr = nil
	}
	return readErr, writeErr
}

// pumpAny copies from a connection whose readiness cannot be waited for: it waits with a small
// buffer and takes a large one while that fills up.
func pumpAny(dst io.Writer, src io.Reader, count *tally) (readErr, writeErr error) {
	var small [512]byte
	for {
		n, readErr, writeErr := pass(dst, src, small[:], count)
		if n == len(small) && readErr == nil && writeErr == nil {
			readErr, writeErr = pumpBurst(dst, src, count)
		}
		if readErr != nil || writeErr != nil {
			return readErr, writeErr
		}
	}
}

func pumpBurst(dst io.Writer, src io.Reader, count *tally) (readErr, writeErr error) {
	buf := copyPool.Get().(*[copySize]byte)
	defer copyPool.Put(buf)
	for {
		n, readErr, writeErr := pass(dst, src, buf[:], count)
		if n < burstSize || readErr != nil || writeErr != nil {
			return readErr, writeErr
		}
	}
}

// pass reads once and writes what came.
func pass(dst io.Writer, src io.Reader, buf []byte, count *tally) (n int, readErr, writeErr error) {
	n, readErr = src.Read(buf)
	return n, readErr, put(dst, buf[:n], count)
}

func put(dst io.Writer, p []byte, count *tally) error {
	if len(p) == 0 {
		return nil
	}
	n, err := dst.Write(p)
	count.add(int64(n))
	return err
}
