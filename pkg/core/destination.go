package core

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// destination is what a client asked for, before it is resolved.
type destination struct {
	host string     // folded name, or ""
	ip   netip.Addr // when the client named an address
	port uint16
}

func (d destination) String() string {
	if d.host == "" {
		return netip.AddrPortFrom(d.ip, d.port).String()
	}
	return d.host + ":" + strconv.Itoa(int(d.port))
}

// parseDestination reads host:port strictly: an IPv4 address in dotted decimal,
// an IPv6 address in brackets, or a name of letters, digits, hyphens and
// underscores, or an international one. Other spellings of addresses,
// which some resolvers take (127.1, 0x7f000001, 2130706433), are no names. It
// returns ErrInvalid.
func parseDestination(s string) (destination, error) {
	bad := func(why string) (destination, error) {
		return destination{}, fmt.Errorf("core: destination %q: %s: %w", mesh.Quotable(s), why, mesh.ErrInvalid)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !isPort(port) {
		return bad("want host:port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return bad("want host:port")
	}
	d := destination{port: uint16(n)}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" || ip.Is4() && s[0] == '[' || ip.Is6() && s[0] != '[' {
			return bad("not an address as it is written in URLs")
		}
		d.ip = ip.Unmap()
		return d, nil
	}
	if d.host, err = fold(host); err != nil || !isHostName(d.host) {
		return bad("not a host name")
	}
	return d, nil
}

// fold is the form in which a name is looked up and compared: in lower case,
// without the dot at the end, international labels as A-labels (UTS 46).
func fold(host string) (string, error) {
	if !utf8.ValidString(host) {
		return "", mesh.ErrInvalid // it would be mapped to what stands for errors
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		var err error
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return "", err
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), nil
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

func isHostName(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if len(l) == 0 || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

// policy decides where clients may go. It is made anew when the configuration
// changes.
type policy struct {
	allow     []netip.Prefix
	denyPorts []uint16
	mesh      meshAddresses
	// own returns the addresses of this machine. A service here that listens on
	// a public address is still not for clients, unless a range allows it.
	own func() []netip.Addr
	// relay is the port of the core's own listener: never a destination here.
	relay func() uint16
}

// meshAddresses are what management calls the mesh's own: addresses, with or
// without a port, and names.
type meshAddresses struct {
	addrs []netip.Addr
	pairs []netip.AddrPort
	names []string // host or host:port, folded
}

func parseMeshAddresses(list []string) meshAddresses {
	var m meshAddresses
	for _, s := range list {
		if ap, err := netip.ParseAddrPort(s); err == nil {
			m.pairs = append(m.pairs, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
		} else if a, err := netip.ParseAddr(s); err == nil {
			m.addrs = append(m.addrs, a.Unmap())
		} else {
			m.names = append(m.names, strings.ToLower(s))
		}
	}
	return m
}

// checkName refuses what the text alone decides. It returns ErrDenied.
func (p policy) checkName(d destination) error {
	switch {
	case slices.Contains(p.denyPorts, d.port):
		return fmt.Errorf("core: port %d is closed here: %w", d.port, mesh.ErrDenied)
	case d.host != "" && (slices.Contains(p.mesh.names, d.host) || slices.Contains(p.mesh.names, d.String())):
		return fmt.Errorf("core: %s belongs to the mesh itself: %w", d.host, mesh.ErrDenied)
	}
	return nil
}

// check judges one resolved address; own are this machine's. It returns
// ErrDenied.
func (p policy) check(ap netip.AddrPort, own []netip.Addr) error {
	a := mesh.Unfold(ap.Addr())
	here := slices.Contains(own, a)
	if slices.Contains(p.mesh.pairs, netip.AddrPortFrom(a, ap.Port())) || here && ap.Port() == p.relay() {
		return fmt.Errorf("core: %v belongs to the mesh itself: %w", ap, mesh.ErrDenied)
	}
	if err := (mesh.AddressPolicy{Allow: p.allow, Deny: p.mesh.addrs}).Check(a); err != nil {
		return err
	}
	if here && !slices.ContainsFunc(p.allow, func(x netip.Prefix) bool { return x.Contains(a) }) {
		return fmt.Errorf("core: %v is this core itself: %w", a, mesh.ErrDenied)
	}
	return nil
}

// permitted keeps the addresses that may be dialled. It returns ErrDenied, with
// the reason for each, when none is left.
func (p policy) permitted(ips []netip.Addr, port uint16) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	var errs []error
	own := p.own()
	for _, ip := range ips {
		ap := netip.AddrPortFrom(ip.Unmap(), port)
		if err := p.check(ap, own); err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, ap)
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

func interfaceAddresses() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the address policy still holds
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out
}

// resolveFunc turns a name into addresses; tests put their own here.
type resolveFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// resolveSystem asks the system, with the name taken as complete.
func resolveSystem(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host+".")
}
