package entry

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/pires/go-proxyproto"
)

// Proxies says which peers speak for others: balancers that begin each
// connection with a PROXY protocol header (version 1 or 2). From anybody else
// such a header is just not TLS.
type Proxies struct {
	Trusted []netip.Prefix
	// Required: a trusted peer that sends no header is refused. Otherwise it
	// is a client itself.
	Required bool
}

func (p Proxies) trusts(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p.Trusted, func(x netip.Prefix) bool { return x.Contains(a) })
}

const (
	maxProxyV1 = 107 // bytes, with the line's end
	maxProxyV2 = 536 // bytes, with the first 16
	v2Fixed    = 16
)

var (
	sigV1 = []byte("PROXY ")
	sigV2 = []byte("\r\n\r\n\x00\r\nQUIT\n")
)

var errProxy = errors.New("entry: read PROXY header")

// readProxy reads the header at the start of r and returns the client it names
// and the bytes read beyond it. The client is invalid if the header names none
// (version 1 UNKNOWN, version 2 LOCAL) or, unless required, if there is no
// header at all.
func readProxy(r io.Reader, required bool) (client netip.AddrPort, rest []byte, err error) {
	buf := make([]byte, 0, maxProxyV2)
	for {
		n, state := proxyLength(buf)
		switch {
		case state == proxyComplete:
			if client, err = parseProxy(buf[:n]); err != nil {
				return client, nil, err
			}
			return client, buf[n:], nil
		case state == proxyNone && !required:
			return netip.AddrPort{}, buf, nil
		case state == proxyNone:
			return netip.AddrPort{}, nil, fmt.Errorf("%w: there is none", errProxy)
		case state == proxyTooLong:
			return netip.AddrPort{}, nil, fmt.Errorf("%w: too long", errProxy)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil && n == 0 {
			return netip.AddrPort{}, nil, fmt.Errorf("entry: read PROXY header: %w", err)
		}
	}
}

type proxyState int

const (
	proxyPartial proxyState = iota
	proxyComplete
	proxyNone
	proxyTooLong
)

// proxyLength says how long the header at the start of b is, as far as b tells.
func proxyLength(b []byte) (n int, state proxyState) {
	switch {
	case hasPrefix(b, sigV1):
		end := bytes.IndexByte(b, '\n')
		if end >= maxProxyV1 || end < 0 && len(b) >= maxProxyV1 {
			return 0, proxyTooLong
		}
		if end >= 0 {
			return end + 1, proxyComplete
		}
		return 0, proxyPartial
	case hasPrefix(b, sigV2):
		if len(b) < v2Fixed {
			return 0, proxyPartial
		}
		n = v2Fixed + int(binary.BigEndian.Uint16(b[v2Fixed-2:]))
		if n > maxProxyV2 {
			return 0, proxyTooLong
		}
		if len(b) < n {
			return 0, proxyPartial
		}
		return n, proxyComplete
	}
	return 0, proxyNone
}

// hasPrefix says whether b begins with sig, as far as it goes.
func hasPrefix(b, sig []byte) bool {
	n := min(len(b), len(sig))
	return bytes.Equal(b[:n], sig[:n])
}

// parseProxy reads one whole header.
func parseProxy(b []byte) (netip.AddrPort, error) {
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(b), maxProxyV2))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %w", errProxy, err)
	}
	if h.Command.IsLocal() || h.TransportProtocol.IsUnspec() {
		return netip.AddrPort{}, nil
	}
	src, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok || !src.AddrPort().IsValid() {
		return netip.AddrPort{}, fmt.Errorf("%w: it names no TCP client", errProxy)
	}
	ap := src.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()), nil
}
