package clientproto

import (
	"bufio"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
)

// Destination is where a client wants to go, as it said so. A name is whatever
// it sent, up to 255 bytes; it may also be the text of an address.
type Destination struct {
	Name string     // or "" when Addr is set
	Addr netip.Addr // IPv4 is never mapped into IPv6
	Port uint16
}

// To is the destination of an address and a port.
func To(ap netip.AddrPort) Destination {
	return Destination{Addr: ap.Addr().Unmap().WithZone(""), Port: ap.Port()}
}

// String prints host:port, IPv6 in brackets.
func (d Destination) String() string {
	if d.Name == "" {
		return netip.AddrPortFrom(d.Addr, d.Port).String()
	}
	return net.JoinHostPort(d.Name, strconv.Itoa(int(d.Port)))
}

// Form is one of the two ways in which these protocols write a destination.
type Form uint8

// Forms.
const (
	PortFirst Form = iota // VLESS and mux.cool: port, type (1, 2, 3), address
	PortLast              // SOCKS5 and Trojan: type (1, 3, 4), address, port
)

const maxName = 255

// types are the numbers of IPv4, name and IPv6.
func (f Form) types() (v4, name, v6 byte) {
	if f == PortFirst {
		return 1, 2, 3
	}
	return 1, 3, 4
}

// head is how many bytes tell how long the whole is.
func (f Form) head() int {
	if f == PortFirst {
		return 4
	}
	return 2
}

// size says how long the destination is of which head is the beginning.
func (f Form) size(head []byte) (int, error) {
	kind, length := head[len(head)-2], int(head[len(head)-1])
	v4, name, v6 := f.types()
	switch kind {
	case v4:
		return 1 + 4 + 2, nil
	case v6:
		return 1 + 16 + 2, nil
	case name:
		if length == 0 {
			return 0, invalid("destination: empty name")
		}
		return 1 + 1 + length + 2, nil
	}
	return 0, invalid("destination: unknown type %d", kind)
}

// decode reads a destination that is complete and of a known type.
func (f Form) decode(b []byte) Destination {
	var d Destination
	if f == PortFirst {
		d.Port, b = binary.BigEndian.Uint16(b), b[2:]
	} else {
		d.Port, b = binary.BigEndian.Uint16(b[len(b)-2:]), b[:len(b)-2]
	}
	if _, name, _ := f.types(); b[0] == name {
		d.Name = string(b[2:])
		return d
	}
	addr, _ := netip.AddrFromSlice(b[1:])
	d.Addr = addr.Unmap()
	return d
}

// Read consumes a destination inside a message.
func (f Form) Read(r *bufio.Reader) (Destination, error) { return f.read(r, true) }

func (f Form) read(r *bufio.Reader, inside bool) (Destination, error) {
	head, err := r.Peek(f.head())
	if err != nil {
		_, err = take(r, f.head(), inside)
		return Destination{}, err
	}
	n, err := f.size(head)
	if err != nil {
		return Destination{}, err
	}
	b, err := take(r, n, true)
	if err != nil {
		return Destination{}, err
	}
	return f.decode(b), nil
}

// Parse reads the destination at the beginning of b and returns what follows.
func (f Form) Parse(b []byte) (Destination, []byte, error) {
	if len(b) < f.head() {
		return Destination{}, nil, invalid("destination: %d bytes are too few", len(b))
	}
	n, err := f.size(b[:f.head()])
	if err != nil {
		return Destination{}, nil, err
	}
	if len(b) < n {
		return Destination{}, nil, invalid("destination: %d bytes are too few", len(b))
	}
	return f.decode(b[:n]), b[n:], nil
}

// Append writes d, of which a name beyond 255 bytes is cut.
func (f Form) Append(b []byte, d Destination) []byte {
	v4, name, v6 := f.types()
	if f == PortFirst {
		b = binary.BigEndian.AppendUint16(b, d.Port)
	}
	switch {
	case d.Name != "":
		text := d.Name[:min(len(d.Name), maxName)]
		b = append(append(b, name, byte(len(text))), text...)
	case d.Addr.Is4():
		a := d.Addr.As4()
		b = append(append(b, v4), a[:]...)
	default:
		a := d.Addr.As16()
		b = append(append(b, v6), a[:]...)
	}
	if f == PortLast {
		b = binary.BigEndian.AppendUint16(b, d.Port)
	}
	return b
}
