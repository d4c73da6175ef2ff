// Package freeport finds addresses of this machine for servers that start later,
// or stop and start again.
//
// A port that the system chose for a listener is free for everybody once the
// listener is closed, and the next outgoing connection of anybody may get it. So
// these ports are outside the range from which the system chooses, nobody listens
// on them, and no other process that asks here gets them too.
package freeport

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TB is what Addr needs of a testing.TB, so that this package does not link it.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Addr returns host:port of 127.0.0.1 as Claim does.
func Addr(t TB) string {
	t.Helper()
	addrs, err := Claim(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0].String()
}

// Claim returns n addresses of host on whose ports nobody listens, neither TCP
// nor UDP. They stay this process's own for as long as it lives: no call gets
// them again, whatever the host and the process.
func Claim(host netip.Addr, n int) ([]netip.AddrPort, error) {
	table, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("freeport: %w", err)
	}
	first, last := outside(string(table))
	file := filepath.Join(os.TempDir(), fmt.Sprintf("meshctl-ports-%d", os.Getuid()))
	addrs, err := pool{file, first, last}.claim(host, n)
	if err != nil {
		return nil, fmt.Errorf("freeport: claim %d ports of %s: %w", n, host, err)
	}
	return addrs, nil
}

// The ports that may be claimed. Below the lowest are those of known services.
const (
	lowest, highest = 10000, 65535
	// enough is how many there have to be.
	enough = 2000
)

// outside returns the larger of the two ranges beside the one that the system
// says it chooses from, or everything if it says nothing or leaves nearly nothing.
func outside(table string) (first, last int) {
	var from, to int
	if n, err := fmt.Sscan(table, &from, &to); n != 2 || err != nil {
		return lowest, highest
	}
	first, last = lowest, min(from-1, highest)
	if above := max(to+1, lowest); highest-above > last-first {
		first, last = above, highest
	}
	if last-first < enough {
		return lowest, highest
	}
	return first, last
}

// pool is a range of ports, and a file of which byte n is locked by whoever has
// port n. A lock ends with its process, however that ends.
type pool struct {
	file        string
	first, last int
}

// claim locks through a descriptor of its own, since locks of one descriptor do
// not exclude each other. It is never closed, which would end the locks, and is
// no os.File, which is closed when it is garbage.
func (p pool) claim(host netip.Addr, n int) ([]netip.AddrPort, error) {
	fd, err := unix.Open(p.file, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: p.file, Err: err}
	}
	var out []netip.AddrPort
	for _, i := range rand.Perm(p.last - p.first + 1) {
		if len(out) == n {
			break
		}
		addr := netip.AddrPortFrom(host, uint16(p.first+i))
		ok, err := take(fd, addr)
		if err != nil {
			return nil, errors.Join(err, unix.Close(fd))
		}
		if ok {
			out = append(out, addr)
		}
	}
	if len(out) < n {
		return nil, errors.Join(fmt.Errorf("all others are taken: %w", mesh.ErrUnavailable), unix.Close(fd))
	}
	return out, nil
}

// take says whether the port was nobody's and is now ours.
func take(fd int, addr netip.AddrPort) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(addr.Port()), Len: 1}
	switch err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock); {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("lock", err)
	}
	return free(addr)
}

// free says whether one could listen on addr.
func free(addr netip.AddrPort) (bool, error) {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	if err == nil {
		defer tcp.Close()
		var udp *net.UDPConn
		if udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr)); err == nil {
			defer udp.Close()
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return false, nil
	}
	return err == nil, err
}
