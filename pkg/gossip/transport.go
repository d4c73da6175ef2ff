package gossip

import (
	"log"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport is memberlist's own, with a door: packets and connections from
// addresses that are not known are dropped unread.
type transport struct {
	*memberlist.NetTransport
	from    net.Addr // of connections to others
	known   func(netip.Addr) bool
	packets chan *memberlist.Packet
	streams chan net.Conn
	ending  chan struct{} // closed when nobody takes anything any more
	ended   chan struct{} // closed when nothing comes any more
	end     sync.Once
	wg      sync.WaitGroup
}

func newTransport(at netip.AddrPort, quiet *log.Logger, known func(netip.Addr) bool) (*transport, error) {
	inner, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{at.Addr().String()}, BindPort: int(at.Port()), Logger: quiet,
	})
	if err != nil {
		return nil, err
	}
	t := &transport{
		NetTransport: inner, known: known, from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), 0)),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		ending: make(chan struct{}), ended: make(chan struct{}),
	}
	t.wg.Go(t.filterPackets)
	t.wg.Go(t.filterStreams)
	return t, nil
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport. The others know
// this server by the address it listens on; where it has several, the system
// could choose another, and their door would stay shut.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, LocalAddr: t.from}
	return d.Dial("tcp", a.Addr)
}

// Shutdown implements memberlist.Transport.
func (t *transport) Shutdown() error {
	var err error
	t.end.Do(func() {
		close(t.ending)
		err = t.NetTransport.Shutdown() // waits for its readers, who need ours
		close(t.ended)
		t.wg.Wait()
	})
	return err
}

func (t *transport) filterPackets() {
	for {
		select {
		case p := <-t.NetTransport.PacketCh():
			if !t.known(ipOf(p.From)) {
				continue
			}
			select {
			case t.packets <- p:
			case <-t.ending:
			}
		case <-t.ended:
			return
		}
	}
}

func (t *transport) filterStreams() {
	for {
		select {
		case c := <-t.NetTransport.StreamCh():
			if !t.known(ipOf(c.RemoteAddr())) {
				c.Close()
				continue
			}
			select {
			case t.streams <- c:
			case <-t.ending:
				c.Close()
			}
		case <-t.ended:
			return
		}
	}
}

func ipOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
