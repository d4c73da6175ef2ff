package mesh

import (
	"fmt"
	"net/netip"
	"slices"
)

// reserved are ranges that never name a host on the public Internet, beside
// those netip knows by name (IANA special-purpose registries, RFC 6890).
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared address space, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), // protocols: Teredo would smuggle an IPv4 address
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // 6to4 would smuggle one too
	netip.MustParsePrefix("3fff::/20"),
}

// global6 is all of IPv6 that is given out to hosts (RFC 4291, 2.4). Beyond it
// lie, among others, IPv4 addresses written as IPv6.
var global6 = netip.MustParsePrefix("2000::/3")

// nat64 embeds an IPv4 address in its last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// metadata are addresses under which clouds answer their own machines with
// credentials. (Link-local ones are refused as such.)
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"), // looks public
	netip.MustParseAddr("192.0.0.192"),
}

// IsMetadata says whether a cloud answers its own machines at a with credentials.
func IsMetadata(a netip.Addr) bool { return slices.Contains(metadata, Unfold(a)) }

// Unfold is where a connection to a ends: the IPv4 address inside an IPv6 one
// (mapped, NAT64), and otherwise a itself, without zone.
func Unfold(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// Public says nil when a names a host on the public Internet, and otherwise
// why not. IPv4 inside IPv6 is judged as IPv4.
func Public(a netip.Addr) error {
	a = Unfold(a)
	why := ""
	switch {
	case !a.IsValid() || a.IsUnspecified():
		why = "unspecified"
	case a.IsLoopback():
		why = "loopback"
	case a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast():
		why = "link-local"
	case IsMetadata(a):
		why = "a cloud's metadata service"
	case a.IsPrivate():
		why = "private"
	case a.IsMulticast():
		why = "multicast"
	case a.Is6() && !global6.Contains(a) || slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) }):
		why = "reserved"
	default:
		return nil
	}
	return fmt.Errorf("mesh: address %v is %s: %w", a, why, ErrDenied)
}

// AddressPolicy decides which addresses may be dialled.
type AddressPolicy struct {
	Allow []netip.Prefix // beyond public addresses
	Deny  []netip.Addr   // whatever Allow says: addresses of the mesh itself
}

// Check returns nil when a may be dialled, otherwise ErrDenied with the reason.
func (p AddressPolicy) Check(a netip.Addr) error {
	u := Unfold(a)
	if slices.Contains(p.Deny, u) {
		return fmt.Errorf("mesh: address %v belongs to the mesh itself: %w", u, ErrDenied)
	}
	if slices.ContainsFunc(p.Allow, func(x netip.Prefix) bool { return x.Contains(u) }) {
		return nil
	}
	return Public(a)
}
