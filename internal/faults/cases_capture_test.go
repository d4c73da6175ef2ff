//go:build faults

package faults

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/internal/lab"
)

// capture is every packet that passes any interface of a host, loopback too.
type capture struct {
	host *Host
	fd   int
	stop chan struct{}
	wg   sync.WaitGroup

	all bytes.Buffer // of the reader, until it has ended
	err error
}

// quietTime is how long a reader waits for a packet before it looks whether to end.
const quietTime = 100 * time.Millisecond

func startCapture(t *testing.T, h *Host) *capture {
	t.Helper()
	c := &capture{host: h, stop: make(chan struct{})}
	every := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8) // network order
	limit := unix.NsecToTimeval(quietTime.Nanoseconds())
	err := h.ns.Do(func() (err error) {
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(every)); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	})
	if err != nil {
		t.Fatal(err)
	}
	c.wg.Go(c.read)
	return c
}

func (c *capture) read() {
	packet := make([]byte, 1<<17)
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		n, err := unix.Read(c.fd, packet)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case err != nil:
			c.err = err
			return
		default:
			c.all.Write(packet[:n])
		}
	}
}

// end returns all packets, of which none was missed.
func (c *capture) end(t *testing.T) []byte {
	t.Helper()
	<-time.After(2 * quietTime) // for what is under way
	close(c.stop)
	c.wg.Wait()
	defer func() {
		if err := unix.Close(c.fd); err != nil {
			t.Error(err)
		}
	}()
	stats, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err := errors.Join(c.err, err); err != nil {
		t.Fatal(err)
	}
	if stats.Drops != 0 {
		t.Errorf("%s: %d packets were missed", c.host.Name, stats.Drops)
	}
	t.Logf("%s: %d packets, %d KiB", c.host.Name, stats.Packets, c.all.Len()>>10)
	return c.all.Bytes()
}

// samples keeps a piece from the middle of whatever a client's TLS sends and
// receives.
type samples struct {
	net.Conn
	mu   sync.Mutex
	kept [][]byte
}

const sampleSize = 24

func (s *samples) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.keep(p[:n])
	return n, err
}

func (s *samples) Write(p []byte) (int, error) {
	s.keep(p)
	return s.Conn.Write(p)
}

func (s *samples) keep(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What is longer may lie in two packets.
	if from := len(p)/2 - sampleSize; from > 0 && len(p) < 1200 {
		s.kept = append(s.kept, bytes.Clone(p[from:from+sampleSize]))
	}
}

// Management carries no client's traffic: nothing of a client's stream, in the
// clear or sealed, passes any interface of a server, nor does the name it asked
// for; at an entry and a core the same captures see what they should.
func TestManagementCarriesNoTraffic(t *testing.T) {
	l := theLab(t)
	seen := &samples{}
	c := l.NewClient(t, memberName)
	c.wrap = func(raw net.Conn) net.Conn { seen.Conn = raw; return seen }
	core, entry := l.coreOf(t, c), l.Entries[0]
	at := map[*Host]*capture{}
	for _, h := range append([]*Host{core, entry}, l.Mgmt...) {
		at[h] = startCapture(t, h)
	}
	marker := make([]byte, 512)
	if _, err := rand.Read(marker); err != nil {
		t.Fatal(err)
	}
	tun, err := c.Connect(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	l.sendThereAndBack(t, tun, marker)
	packets := map[*Host][]byte{}
	for h, cap := range at {
		packets[h] = cap.end(t)
	}
	name := []byte(c.Link.ServerName)
	if n := bytes.Count(packets[core], marker); n < 2*rounds {
		t.Errorf("the core's capture has the marker %d times; want it there and back %d times each", n, rounds)
	}
	if !bytes.Contains(packets[entry], name) {
		t.Error("the entry's capture lacks the name of the client's hello")
	}
	if bytes.Contains(packets[entry], marker) {
		t.Error("the entry sees what the client says")
	}
	found := 0
	for _, sample := range seen.kept {
		if bytes.Contains(packets[entry], sample) {
			found++
		}
	}
	if found < rounds {
		t.Errorf("the entry's capture has %d of %d samples of the client's TLS", found, len(seen.kept))
	}
	for _, h := range l.Mgmt {
		for what, piece := range map[string][]byte{"what the client says": marker[:32], "the name it asks for": name, "its label": name[:bytes.IndexByte(name, '.')]} {
			if bytes.Contains(packets[h], piece) {
				t.Errorf("%s sees %s", h.Name, what)
			}
		}
		for _, sample := range seen.kept {
			if bytes.Contains(packets[h], sample) {
				t.Errorf("%s sees a piece of the client's TLS", h.Name)
			}
		}
	}
	l.Note("management's interfaces are captured during transfers", "no byte of the client's stream, sealed or not, and no name; the entry's capture has %d samples of it, the core's the clear bytes %d times", found, bytes.Count(packets[core], marker))
}

const rounds = 40

func (l *Lab) sendThereAndBack(t *testing.T, tun *lab.Tunnel, marker []byte) {
	t.Helper()
	if err := tun.SetDeadline(time.Now().Add(lab.SetupTime)); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(marker))
	for range rounds {
		if _, err := tun.Write(marker); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(tun, back); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back, marker) {
			t.Fatal("the echo differs")
		}
	}
}
