package storetest

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Link is a TCP connection that a test can cut: between Cut and Heal it closes
// every connection it has and every new one at once. Between Freeze and Heal it
// keeps them and passes nothing on, as a frozen machine does.
type Link struct {
	ln net.Listener
	to string

	mu     sync.Mutex // guards what follows
	cut    bool
	frozen chan struct{} // not nil: closed by Heal
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// NewLink returns a link to addr that ends with the test.
func NewLink(t testing.TB, addr string) *Link {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{ln: ln, to: addr, conns: map[net.Conn]bool{}}
	l.wg.Go(l.serve)
	t.Cleanup(func() {
		ln.Close()
		l.Heal() // releases what is frozen
		l.Cut()
		l.wg.Wait()
	})
	return l
}

// Addr is host:port of the near end.
func (l *Link) Addr() string { return l.ln.Addr().String() }

// To is host:port of the far end.
func (l *Link) To() string { return l.to }

// Cut closes all connections and refuses new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		c.Close()
	}
}

// Freeze stops passing bytes on in both directions.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen == nil {
		l.frozen = make(chan struct{})
	}
}

// Heal ends what Cut or Freeze began.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

func (l *Link) serve() {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			return // closed at the end of the test
		}
		l.wg.Go(func() { l.pass(c) })
	}
}

func (l *Link) pass(near net.Conn) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.to)
	if err != nil {
		return // the near end sees it closed
	}
	defer far.Close()
	if !l.add(near, far) {
		return
	}
	defer l.remove(near, far)
	var both sync.WaitGroup
	both.Go(func() { l.copy(far, near) })
	both.Go(func() { l.copy(near, far) })
	both.Wait()
}

func (l *Link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
	}
	return !l.cut
}

func (l *Link) remove(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}

// copy ends both ways when one does.
func (l *Link) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.thaw()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) thaw() {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}
