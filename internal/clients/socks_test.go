//go:build clients

package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// socks is host:port of the SOCKS5 server that a client has for the programs of
// its machine.
type socks string

// http is a client that goes through it, with a new connection for each request.
// It sends a body when the origin has seen the header: with Trojan, Xray drops a
// connection that begins with more than 8 KiB ("buffer is full"), as nothing
// that begins with TLS does.
func (s socks) http(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout: limit,
		Transport: &http.Transport{
			Proxy:                 http.ProxyURL(&url.URL{Scheme: "socks5h", Host: string(s)}),
			DisableKeepAlives:     true,
			ExpectContinueTimeout: limit,
		},
	}
}

// associate opens a way for UDP (RFC 1928, 7). It is open as long as control is.
func (s socks) associate(ctx context.Context) (control net.Conn, relay *net.UDPConn, err error) {
	control, err = new(net.Dialer).DialContext(ctx, "tcp", string(s))
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, control.Close())
		}
	}()
	if err := control.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, nil, err
	}
	if _, err := control.Write([]byte("\x05\x01\x00" + "\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00")); err != nil {
		return nil, nil, err
	}
	var answer [2 + 10]byte
	if _, err := io.ReadFull(control, answer[:]); err != nil {
		return nil, nil, err
	}
	if answer[1] != 0 || answer[3] != 0 || answer[5] != 1 {
		return nil, nil, fmt.Errorf("SOCKS answers % x", answer)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte(answer[6:10])), uint16(answer[10])<<8|uint16(answer[11]))
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(loopback, at.Port())
	}
	relay, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	return control, relay, err
}

// askUDP sends one packet to an IPv4 address and returns the first answer, and
// where it says it came from.
func askUDP(relay *net.UDPConn, to netip.AddrPort, packet []byte, limit time.Duration) ([]byte, netip.AddrPort, error) {
	ip := to.Addr().As4()
	head := append([]byte{0, 0, 0, 1}, ip[:]...)
	head = append(head, byte(to.Port()>>8), byte(to.Port()))
	if _, err := relay.Write(append(head, packet...)); err != nil {
		return nil, netip.AddrPort{}, err
	}
	if err := relay.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, netip.AddrPort{}, err
	}
	buf := make([]byte, 2048)
	n, err := relay.Read(buf)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	if n < len(head) || buf[3] != 1 {
		return nil, netip.AddrPort{}, fmt.Errorf("SOCKS gave a packet % x", buf[:n])
	}
	from := netip.AddrPortFrom(netip.AddrFrom4([4]byte(buf[4:8])), uint16(buf[8])<<8|uint16(buf[9]))
	return buf[len(head):n], from, nil
}

// connect opens a way for TCP to a name as it is written, which no other client
// of Go would: those make A-labels of it.
func (s socks) connect(ctx context.Context, name string, port uint16) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", string(s))
	if err != nil {
		return nil, err
	}
	request := append([]byte("\x05\x01\x00\x05\x01\x00\x03"), byte(len(name)))
	request = append(append(request, name...), byte(port>>8), byte(port))
	var answer [2 + 10]byte
	_, err = c.Write(request)
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(patience))
	}
	if err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	if err == nil && answer[3] != 0 {
		err = fmt.Errorf("SOCKS answers % x", answer)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
