package control

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// errMoved ends a stream that hangs on an address this machine no longer has:
// nothing that is sent from it arrives, and without a word of anybody.
var errMoved = fmt.Errorf("this machine's address has changed: %w", mesh.ErrUnavailable)

// place is where a stream begins: an address of one of this machine's interfaces.
// One that none of them had from the start, as behind some routing rules, is not
// followed.
type place struct {
	ip        netip.Addr
	addresses func() ([]net.Addr, error) // net.InterfaceAddrs
}

func placeOf(local net.Addr, addresses func() ([]net.Addr, error)) place {
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return place{}
	}
	p := place{tcp.AddrPort().Addr().Unmap().WithZone(""), addresses}
	if has, err := p.has(); err != nil || !has {
		return place{}
	}
	return p
}

// left says whether the address is gone.
func (p place) left() bool {
	if !p.ip.IsValid() {
		return false
	}
	has, err := p.has()
	return err == nil && !has
}

func (p place) has() (bool, error) {
	list, err := p.addresses()
	if err != nil {
		return false, err
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == p.ip {
				return true, nil
			}
		}
	}
	return false, nil
}
