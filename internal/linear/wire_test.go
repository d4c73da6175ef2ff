package linear

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// state of the way between two members.
type state int

const (
	open  state = iota
	cut         // connections are closed
	holed       // connections stay, and nothing passes
)

type way struct{ from, to int }

// wires are the proxies in front of the members' peer ports. Who has dialled is
// told by which process holds the other end of the connection.
type wires struct {
	proxies [3]string // addresses
	owner   func(net.Conn) (int, bool)

	mu     sync.Mutex // guards what follows
	change *sync.Cond
	states map[way]state
	conns  map[net.Conn]way
	ended  bool
}

func newWires(t *testing.T, to [3]string, owner func(net.Conn) (int, bool)) *wires {
	w := &wires{owner: owner, states: map[way]state{}, conns: map[net.Conn]way{}}
	w.change = sync.NewCond(&w.mu)
	var wg sync.WaitGroup
	var lns []net.Listener
	for i, addr := range to {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w.proxies[i] = ln.Addr().String()
		lns = append(lns, ln)
		wg.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return // closed at the end
				}
				wg.Go(func() { w.pass(c, i, addr) })
			}
		})
	}
	t.Cleanup(func() {
		for _, ln := range lns {
			ln.Close()
		}
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.set(cut, append(around(0), way{1, 2}, way{2, 1})...)
		wg.Wait()
	})
	return w
}

// set changes ways. Cutting one closes its connections.
func (w *wires) set(s state, ways ...way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range ways {
		w.states[x] = s
		for c, of := range w.conns {
			if s == cut && of == x {
				c.Close()
			}
		}
	}
	w.change.Broadcast()
}

// around are all ways to and from a member.
func around(i int) []way {
	a, b := (i+1)%3, (i+2)%3
	return []way{{i, a}, {i, b}, {a, i}, {b, i}}
}

func (w *wires) pass(near net.Conn, to int, addr string) {
	defer near.Close()
	from, ok := w.owner(near)
	if !ok {
		return // it has died meanwhile
	}
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return // that member is down
	}
	defer far.Close()
	x := way{from, to}
	if !w.add(x, near, far) {
		return
	}
	defer w.remove(near, far)
	var both sync.WaitGroup
	both.Go(func() { w.copy(x, far, near) })
	both.Go(func() { w.copy(x, near, far) })
	both.Wait()
}

func (w *wires) add(x way, conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = x
	}
	return w.states[x] != cut && !w.ended
}

func (w *wires) remove(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		delete(w.conns, c)
	}
}

func (w *wires) copy(x way, to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		for w.states[x] == holed {
			w.change.Wait()
		}
		w.mu.Unlock()
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

// holds says whether a process has the other end of a connection on loopback.
func holds(pid int, inode string) bool {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// inodeOf is the socket at the other end of c, "" if it is gone.
func inodeOf(c net.Conn) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	local, remote := hexAddr(c.RemoteAddr()), hexAddr(c.LocalAddr())
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == local && f[2] == remote {
			return f[9]
		}
	}
	return ""
}

// hexAddr is an address as the kernel prints it: IPv4 bytes in the order of a
// little-endian machine.
func hexAddr(a net.Addr) string {
	ap := netip.MustParseAddrPort(a.String())
	b := ap.Addr().As4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", b[3], b[2], b[1], b[0], ap.Port())
}
