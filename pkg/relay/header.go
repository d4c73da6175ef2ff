package relay

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

const (
	tlvAuthority = proxyproto.PP2_TYPE_AUTHORITY
	tlvTrace     = proxyproto.PP2_TYPE_UNIQUE_ID
	tlvDevice    = proxyproto.PP2_TYPE_MIN_CUSTOM

	maxServerName = 255
	maxLabel      = 128 // device and trace
)

// Header is what an entry claims about a new stream: good for limits and accounting, never for
// authorization.
type Header struct {
	ServerName string         // the server name the client asked for; required
	Device     string         // the device id of the route
	Trace      string         // joins the log lines of entry and core
	Client     netip.AddrPort // the client's address; zero unless the cell opted into passing it
}

// Marshal returns the header as PROXY protocol v2: LOCAL without a client address, else PROXY.
func (h Header) Marshal() ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	var tlvs []proxyproto.TLV
	for _, t := range []struct {
		typ   proxyproto.PP2Type
		value string
	}{{tlvAuthority, h.ServerName}, {tlvTrace, h.Trace}, {tlvDevice, h.Device}} {
		if t.value != "" {
			tlvs = append(tlvs, proxyproto.TLV{Type: t.typ, Value: []byte(t.value)})
		}
	}
	p := proxyHeader(h.Client)
	if err := p.SetTLVs(tlvs); err != nil {
		return nil, fmt.Errorf("relay: write header: %w", err)
	}
	b, err := p.Format()
	if err != nil {
		return nil, fmt.Errorf("relay: write header: %w", err)
	}
	return b, nil
}

// proxyHeader returns the address part. The destination is not told: the core decides it.
func proxyHeader(client netip.AddrPort) *proxyproto.Header {
	p := &proxyproto.Header{Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	if !client.IsValid() {
		return p
	}
	p.Command, p.TransportProtocol = proxyproto.PROXY, proxyproto.TCPv4
	zero := netip.IPv4Unspecified()
	addr := client.Addr().Unmap().WithZone("")
	if addr.Is6() {
		p.TransportProtocol, zero = proxyproto.TCPv6, netip.IPv6Unspecified()
	}
	p.SourceAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, client.Port()))
	p.DestinationAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(zero, 0))
	return p
}

// ParseHeader reads what Marshal wrote. It takes at most 4,096 bytes, all of which have to belong
// to the header, and skips TLVs it does not know.
func ParseHeader(b []byte) (Header, error) {
	if len(b) > maxOpen {
		return Header{}, fmt.Errorf("relay: read header: %d bytes", len(b))
	}
	r := bytes.NewReader(b)
	br := bufio.NewReaderSize(r, 64)
	p, err := proxyproto.Read(br)
	switch {
	case err != nil:
		return Header{}, fmt.Errorf("relay: read header: %w", err)
	case p.Version != 2:
		return Header{}, fmt.Errorf("relay: read header: version %d", p.Version)
	case br.Buffered()+r.Len() != 0:
		return Header{}, fmt.Errorf("relay: read header: %d bytes follow it", br.Buffered()+r.Len())
	}
	h, err := fromTLVs(p)
	if err != nil {
		return Header{}, err
	}
	if p.Command == proxyproto.PROXY {
		src, ok := p.SourceAddr.(*net.TCPAddr)
		if !ok {
			return Header{}, fmt.Errorf("relay: read header: address of another kind than TCP")
		}
		ap := src.AddrPort()
		h.Client = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return h, h.check()
}

func fromTLVs(p *proxyproto.Header) (Header, error) {
	tlvs, err := p.TLVs()
	if err != nil {
		return Header{}, fmt.Errorf("relay: read header: %w", err)
	}
	var h Header
	for _, t := range tlvs {
		var field *string
		switch t.Type {
		case tlvAuthority:
			field = &h.ServerName
		case tlvTrace:
			field = &h.Trace
		case tlvDevice:
			field = &h.Device
		default:
			continue
		}
		if *field != "" || len(t.Value) == 0 {
			return Header{}, fmt.Errorf("relay: read header: field 0x%02x empty or repeated", byte(t.Type))
		}
		*field = string(t.Value)
	}
	return h, nil
}

// check holds for what is sent and for what is received: lengths, and nothing that a log line or
// a label could be forged with.
func (h Header) check() error {
	switch {
	case h.ServerName == "":
		return fmt.Errorf("relay: check header: no server name")
	case len(h.ServerName) > maxServerName || len(h.Device) > maxLabel || len(h.Trace) > maxLabel:
		return fmt.Errorf("relay: check header: field too long")
	}
	for _, field := range []string{h.ServerName, h.Device, h.Trace} {
		for i := range len(field) {
			if field[i] <= ' ' || field[i] > '~' {
				return fmt.Errorf("relay: check header: byte 0x%02x", field[i])
			}
		}
	}
	return nil
}
