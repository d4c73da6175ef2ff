package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxAddresses bounds what one core can make the server dial.
const maxAddresses = 8

// policy decides where a core may be: the mesh-wide rule, and never the ports
// of the mesh itself.
type policy struct {
	mesh.AddressPolicy
	own []netip.AddrPort
}

// newPolicy denies the hosts of own altogether, except where an operator
// allowed their range: then a core may share the host, but not the port.
func newPolicy(allow []netip.Prefix, own []netip.AddrPort) policy {
	p := policy{AddressPolicy: mesh.AddressPolicy{Allow: allow}, own: own}
	for _, a := range own {
		if !slices.ContainsFunc(allow, func(x netip.Prefix) bool { return x.Contains(a.Addr()) }) {
			p.Deny = append(p.Deny, a.Addr())
		}
	}
	return p
}

// check returns nil when a core may be dialled at a, otherwise ErrDenied.
func (p policy) check(a netip.AddrPort) error {
	ip := mesh.Unfold(a.Addr())
	switch {
	case a.Port() == 0:
		return fmt.Errorf("nodes: address %v has no port: %w", a, mesh.ErrDenied)
	case ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified():
		return fmt.Errorf("nodes: address %v is link-local, multicast or unspecified: %w", ip, mesh.ErrDenied)
	case mesh.IsMetadata(ip): // whatever range is allowed
		return fmt.Errorf("nodes: address %v is a cloud's metadata service: %w", ip, mesh.ErrDenied)
	case slices.Contains(p.own, netip.AddrPortFrom(ip, a.Port())):
		return fmt.Errorf("nodes: address %v is a port of the mesh itself: %w", a, mesh.ErrDenied)
	}
	return p.Check(ip)
}

// resolver is the part of net.Resolver that is used here.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolve turns host:port (a host without port gets fallback) into addresses,
// IPv4 inside IPv6 unfolded.
func resolve(ctx context.Context, r resolver, hostport string, fallback uint16) ([]netip.AddrPort, error) {
	host, port, err := splitPort(hostport, fallback)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	ips, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("nodes: resolve %q: %w: %w", mesh.Quotable(host), lookupCause(err), mesh.ErrUnavailable)
	}
	var out []netip.AddrPort
	for _, ip := range ips {
		out = append(out, netip.AddrPortFrom(ip.Unmap(), port))
	}
	return out, nil
}

// lookupCause leaves out the resolver's own address and port, which differ
// from one try to the next and help nobody.
func lookupCause(err error) error {
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(d.Err)
	}
	return err
}

func splitPort(hostport string, fallback uint16) (string, uint16, error) {
	bad := func() (string, uint16, error) {
		return "", 0, fmt.Errorf("nodes: address %q: want host or host:port: %w", mesh.Quotable(hostport), mesh.ErrInvalid)
	}
	if _, err := netip.ParseAddr(strings.Trim(hostport, "[]")); err == nil {
		return strings.Trim(hostport, "[]"), fallback, nil
	}
	if !strings.Contains(hostport, ":") && hostport != "" {
		return hostport, fallback, nil
	}
	host, text, err := net.SplitHostPort(hostport)
	if err != nil || host == "" {
		return bad()
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return bad()
	}
	return host, uint16(port), nil
}

// candidates are where a core says it answers: what it advertises, otherwise
// the address it was seen from with the port of its relay. What cannot be used
// is in the error; the addresses beside it can.
func candidates(ctx context.Context, r resolver, p policy, advertise []string, observed netip.Addr, port uint32) ([]netip.AddrPort, error) {
	if port == 0 || port > 65535 {
		return nil, fmt.Errorf("nodes: relay port %d: want 1 to 65535: %w", port, mesh.ErrInvalid)
	}
	var all []netip.AddrPort
	var errs []error
	if len(advertise) == 0 {
		all = []netip.AddrPort{netip.AddrPortFrom(observed.Unmap(), uint16(port))}
	}
	for _, a := range advertise[:min(len(advertise), maxAddresses)] {
		some, err := resolve(ctx, r, a, uint16(port))
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, some...)
	}
	var ok []netip.AddrPort
	for _, a := range all[:min(len(all), maxAddresses)] {
		switch err := p.check(a); {
		case err != nil:
			errs = append(errs, err)
		case !slices.Contains(ok, a):
			ok = append(ok, a)
		}
	}
	return ok, errors.Join(errs...)
}
