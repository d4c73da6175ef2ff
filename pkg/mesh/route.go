package mesh

import (
	"cmp"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Route is what an entry may learn about one server name. Management derives
// it; nobody edits it.
type Route struct {
	Name ServerName `json:"name"`
	// Device is whose the name is; "": that of a service of management.
	Device DeviceID `json:"device"`
	Limits Limits   `json:"limits,omitzero"`
	Hops   []Hop    `json:"hops"`
	// ForwardClientAddress: the stream header carries the client's address.
	ForwardClientAddress bool `json:"forwardClientAddress,omitzero"`
	// Until ends the route although nothing changed (overlap of labels and of places); zero: none.
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

// Target is what an entry may learn about one core, or about a management server
// while there is a subscription service: where it is now and in which state. A
// core's change is one write, whatever the number of routes that name it.
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

// ServerTarget derives the target of a management server, which is where its name
// was found to be.
func ServerTarget(m ID, v Server, at []netip.AddrPort, protocols ...string) Target {
	return Target{
		ID:        string(v.ID),
		Kind:      HopMgmt,
		Identity:  Identity{Mesh: m, Role: RoleMgmt, ID: string(v.ID)}.String(),
		State:     CoreReady,
		Addresses: at,
		Protocols: protocols,
	}
}

// ServiceRoute is the route of a name that management itself answers, at any of
// the servers that are part of the mesh; false: there is none. Management is told
// the client's address, by which it limits who guesses.
func ServiceRoute(n ServerName, servers map[ServerID]Server) (Route, bool) {
	r := Route{Name: n, ForwardClientAddress: true}
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		if servers[id].State == ServerMember {
			r.Hops = append(r.Hops, Hop{Kind: HopMgmt, ID: string(id)})
		}
	}
	return r, n != "" && len(r.Hops) > 0
}

// OfService says whether management itself answers at the route's name, which is
// no device's.
func (r Route) OfService() bool { return r.Device == "" }

// Hops orders the cores of a cell a device may leave through: the assigned core
// first, then the others by rendezvous hash of (device, core), so that devices
// spread evenly and one core's coming or going moves no other pair. Of cores, only
// those of the cell count; admit says whether a core may be named yet (it was ready
// once, is not revoked, and knows the device).
func Hops(d Device, cell CellID, cores []Core, admit func(Core) bool) []Hop {
	var ids []CoreID
	for _, c := range cores {
		if c.Cell == cell && c.EverReady && !c.Revoked && admit(c) {
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

// RoutesOf derives the routes of a device in one cell, one for each valid name;
// none when no core may be named yet. The device's standing is ok.
func RoutesOf(d Device, p Placement, hops []Hop, now time.Time) []Route {
	if len(hops) == 0 || p.Ended(now) {
		return nil
	}
	var out []Route
	for _, l := range d.Labels {
		if !l.NotAfter.IsZero() && !now.Before(l.NotAfter) {
			continue
		}
		out = append(out, Route{
			Name:                 ServerName(l.Label) + "." + p.Cell.Suffix,
			Device:               d.ID,
			Limits:               p.Limits,
			Hops:                 hops,
			ForwardClientAddress: p.ForwardClientAddress,
			Until:                sooner(l.NotAfter, p.Until),
		})
	}
	return out
}
