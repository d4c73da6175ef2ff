package mesh

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Route is what an entry may learn about one server name. Management derives
// it; nobody edits it.
type Route struct {
	Name   ServerName `json:"name"`
	Device DeviceID   `json:"device"`
	Limits Limits     `json:"limits,omitzero"`
	Hops   []Hop      `json:"hops"`
	// ForwardClientAddress: the stream header carries the client's address.
	ForwardClientAddress bool `json:"forwardClientAddress,omitzero"`
	// Until ends the route although nothing changed (label overlap); zero: none.
	Until time.Time `json:"until,omitzero"`
}

// HopKind says what a hop's id names.
type HopKind string

// Kinds of hop.
const (
	HopCore HopKind = "core"
	HopMgmt HopKind = "mgmt"
)

// Hop is one place a route may go to, in the order of assignment.
type Hop struct {
	Kind HopKind `json:"kind"`
	ID   string  `json:"id"`
}

// Target is what an entry may learn about one core: where it is now and in
// which state. A core's change is one write, whatever the number of routes
// that name it.
type Target struct {
	ID        string           `json:"id"`
	Kind      HopKind          `json:"kind"`
	Identity  string           `json:"identity"` // the SPIFFE id its certificate must carry
	State     CoreState        `json:"state"`
	Addresses []netip.AddrPort `json:"addresses,omitzero"`
	Protocols []string         `json:"protocols"` // ALPN names of the relay, best first
}

// TargetOf derives the target of a core.
func TargetOf(m ID, c Core, protocols ...string) Target {
	return Target{
		ID:        string(c.ID),
		Kind:      HopCore,
		Identity:  Identity{Mesh: m, Role: RoleCore, ID: string(c.ID)}.String(),
		State:     c.State,
		Addresses: c.Addresses,
		Protocols: protocols,
	}
}

// Hops orders the cores a device may leave through: the assigned core first,
// then the others of the cell by rendezvous hash of (device, core), so that
// devices spread evenly and one core's coming or going moves no other pair.
// cores are those of the device's cell; admit says whether a core may be named
// yet (it was ready once, is not revoked, and knows the device).
func Hops(d Device, cores []Core, admit func(Core) bool) []Hop {
	var ids []CoreID
	for _, c := range cores {
		if c.Cell == d.Assigned.Cell && c.EverReady && !c.Revoked && admit(c) {
			ids = append(ids, c.ID)
		}
	}
	slices.SortFunc(ids, func(a, b CoreID) int {
		if first := d.Assigned.Core; first != "" && a != b {
			if a == first {
				return -1
			}
			if b == first {
				return 1
			}
		}
		if c := cmp.Compare(weight(d.ID, b), weight(d.ID, a)); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	hops := make([]Hop, len(ids))
	for i, id := range ids {
		hops[i] = Hop{Kind: HopCore, ID: string(id)}
	}
	return hops
}

// weight mixes FNV-1a with the finalizer of MurmurHash3 (Appleby, public
// domain), because FNV alone leaves the high bits of short inputs alike.
func weight(d DeviceID, c CoreID) uint64 {
	h := fnv.New64a()
	h.Write([]byte(d))
	h.Write([]byte{0})
	h.Write([]byte(c))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// RoutesOf derives the routes of a device, one for each valid name; none when
// it is not to be served or no core may be named yet.
func RoutesOf(d Device, m Member, c Cell, hops []Hop, now time.Time) []Route {
	if len(hops) == 0 || !d.Served(m, c, now) {
		return nil
	}
	var out []Route
	for _, l := range d.Labels {
		if !l.NotAfter.IsZero() && !now.Before(l.NotAfter) {
			continue
		}
		out = append(out, Route{
			Name:                 ServerName(l.Label) + "." + c.Suffix,
			Device:               d.ID,
			Limits:               d.Limits,
			Hops:                 hops,
			ForwardClientAddress: c.ForwardClientAddress,
			Until:                l.NotAfter,
		})
	}
	return out
}
