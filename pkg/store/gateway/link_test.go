package gateway_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// link is a TCP forwarder that can stand still: nothing is lost, nothing
// arrives, as with a frozen server.
type link struct {
	addr string
	to   string
	wg   sync.WaitGroup

	mu    sync.Mutex // guards the rest
	thaw  chan struct{}
	conns []net.Conn
}

func newLink(t testing.TB, to string) *link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{addr: ln.Addr().String(), to: to, thaw: make(chan struct{})}
	close(l.thaw)
	l.wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, in, out)
			l.mu.Unlock()
			l.wg.Go(func() { l.copy(t, in, out) })
			l.wg.Go(func() { l.copy(t, out, in) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		l.mu.Lock()
		for _, c := range l.conns {
			c.Close()
		}
		l.mu.Unlock()
		l.wg.Wait()
	})
	return l
}

func (l *link) freeze(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on {
		l.thaw = make(chan struct{})
		return
	}
	close(l.thaw)
}

func (l *link) copy(t testing.TB, dst, src net.Conn) {
	defer dst.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		l.mu.Lock()
		thaw := l.thaw
		l.mu.Unlock()
		<-thaw
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				t.Logf("link: %v", err)
			}
			return
		}
	}
}
