//go:build faults

package faults

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A port of a server that is not its mesh port is closed to everybody outside,
// whatever the protocol; so are ports of nodes that clients or entries do not
// need. On the private network the servers' own ports are there.
func TestPortScan(t *testing.T) {
	l := theLab(t)
	type look struct {
		from *Host
		at   netip.Addr
		name string
		want ports
	}
	var looks []look
	for _, h := range l.Mgmt {
		looks = append(looks,
			look{l.Stranger, h.Addr, h.Name + " from the Internet", ports{tcp: []uint16{8443}}},
			look{l.Neighbour, h.Private, h.Name + " from the private network", ports{tcp: []uint16{2380, 7946, 8443}, udp: []uint16{7946}}})
	}
	looks = append(looks,
		look{l.Stranger, l.Entries[0].Addr, "an entry", ports{tcp: []uint16{443}}},
		look{l.Stranger, l.Cores[0].Addr, "a core", ports{tcp: []uint16{8444}}})
	for _, h := range l.roles() {
		h.answerEveryProbe(t)
	}
	for _, look := range looks {
		begin := time.Now()
		got, err := look.from.scan(look.at)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: open are TCP %v and UDP %v of 65535 each; scanned in %v", look.name, got.tcp, got.udp, time.Since(begin).Round(time.Millisecond))
		if !slices.Equal(got.tcp, look.want.tcp) || !slices.Equal(got.udp, look.want.udp) {
			t.Errorf("%s: found %+v, want %+v", look.name, got, look.want)
		}
	}
	l.Note("a server is scanned from outside, TCP and UDP 1-65535", "only 8443/tcp answers")
}

type ports struct{ tcp, udp []uint16 }

// answerEveryProbe lets the host say "port unreachable" as often as it is asked,
// so that silence means that somebody listens.
func (h *Host) answerEveryProbe(t *testing.T) {
	t.Helper()
	err := h.ns.Do(func() error {
		for file, value := range map[string]string{"icmp_ratelimit": "0", "icmp_msgs_per_sec": "1000000", "icmp_msgs_burst": "1000000"} {
			// The last two are the whole machine's before Linux 6.13, and absent here.
			if err := os.WriteFile("/proc/sys/net/ipv4/"+file, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// scan tries every port of an address.
func (h *Host) scan(at netip.Addr) (found ports, err error) {
	err = h.ns.Do(func() error {
		found.tcp, err = scanTCP(at)
		if err == nil {
			found.udp, err = scanUDP(at)
		}
		return err
	})
	return found, err
}

// connecting bounds a probe of a port that says nothing at all.
const connecting = 200 * time.Millisecond

func everyPort() (all []uint16) {
	for port := 1; port < 1<<16; port++ {
		all = append(all, uint16(port))
	}
	return all
}

// scanTCP returns the ports that do not refuse a connection.
func scanTCP(at netip.Addr) (open []uint16, err error) {
	for _, port := range everyPort() {
		err := unix.EINTR // Go's scheduler interrupts threads now and then
		for err == unix.EINTR {
			err, _ = tryTCP(at, port).(unix.Errno)
		}
		if err != unix.ECONNREFUSED {
			open = append(open, port)
		}
	}
	return open, nil
}

func tryTCP(at netip.Addr, port uint16) error {
	fd, err := probe(unix.SOCK_STREAM, at, port)
	if err := unix.Close(fd); err != nil {
		return err
	}
	return err
}

// scanUDP returns the ports from which no "port unreachable" comes; it asks again
// where an answer may have been lost.
func scanUDP(at netip.Addr) (silent []uint16, err error) {
	silent = everyPort()
	for round := range 100 {
		before := len(silent)
		if silent, err = silentUDP(at, silent); err != nil {
			return nil, err
		}
		if round > 5 && len(silent) == before {
			return silent, nil
		}
	}
	return nil, fmt.Errorf("%d ports of %s are silent now and then", len(silent), at)
}

// atOnce is how many ports are asked before answers are read.
const atOnce = 256

func silentUDP(at netip.Addr, ports []uint16) (silent []uint16, err error) {
	for batch := range slices.Chunk(ports, atOnce) {
		fds := make([]int, len(batch))
		for i, port := range batch {
			if fds[i], err = probe(unix.SOCK_DGRAM, at, port); err != nil {
				return nil, err
			}
			if _, err := unix.Write(fds[i], []byte("?")); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
				return nil, err
			}
		}
		if len(ports) < atOnce { // of these most are asked again: wait for late answers
			<-time.After(connecting)
		}
		for i, fd := range fds {
			_, err := unix.Read(fd, make([]byte, 1))
			if !errors.Is(err, unix.ECONNREFUSED) {
				silent = append(silent, batch[i])
			}
			if err := unix.Close(fd); err != nil {
				return nil, err
			}
		}
	}
	return silent, nil
}

// probe returns a socket that is connected to the port, or one with why it is not.
func probe(kind int, at netip.Addr, port uint16) (int, error) {
	if kind == unix.SOCK_DGRAM {
		kind |= unix.SOCK_NONBLOCK
	}
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fd, err
	}
	limit := unix.NsecToTimeval(connecting.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return fd, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: at.As4()})
}
