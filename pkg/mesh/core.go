package mesh

import (
	"net/netip"
	"time"
)

// CoreState is where a core stands in its life.
type CoreState string

//	join ──▶ joined ──dial-back answers──▶ ready ◀──▶ draining
//	           ▲                            │  ▲
//	           └──────── phones home ── lost ◀─┘ neither lease nor last-seen
//	any state ──▶ revoked (final)
//
// A core that cannot be dialled stays joined and Reason says why.
const (
	CoreJoined   CoreState = "joined"
	CoreReady    CoreState = "ready"
	CoreDraining CoreState = "draining"
	CoreLost     CoreState = "lost"
	CoreRevoked  CoreState = "revoked"
)

// Core is an exit node. Operators own Name, Drain and Revoked; the node control
// service of the server that holds the core's stream owns the rest.
type Core struct {
	ID     CoreID   `json:"id"`
	Name   string   `json:"name"`
	Member MemberID `json:"member"`
	Cell   CellID   `json:"cell"`

	Drain   bool `json:"drain,omitzero"`
	Revoked bool `json:"revoked,omitzero"`
	Banned  bool `json:"banned,omitzero"` // revoked, and its owner may bring no other

	State  CoreState `json:"state"`
	Reason string    `json:"reason,omitzero"` // why it is not ready, for people
	// EverReady admits the core to routes: assignment follows membership in
	// the cell, not health.
	EverReady bool             `json:"everReady,omitzero"`
	Addresses []netip.AddrPort `json:"addresses,omitzero"` // of its relay, proven by dial-back
	Egress    Egress           `json:"egress,omitzero"`
	Version   string           `json:"version,omitzero"`
	Joined    time.Time        `json:"joined"`
}

// Egress is how a core lets traffic out. It is the core owner's local setting;
// management sees it and cannot widen it.
type Egress struct {
	Kind    string         `json:"kind"` // "proxy" or "forward"
	Forward string         `json:"forward,omitzero"`
	Allow   []netip.Prefix `json:"allow,omitzero"`
}

// Liveness is what is known about a node's stream when its state is decided.
type Liveness struct {
	Connected bool      // a lease of the server that holds its stream says so
	LastSeen  time.Time // beside the lease, since a new etcd leader restarts every lease
	Dialled   bool      // the dial-back answered during this stream
	Failure   string    // why the last dial-back failed
}

// Next decides the core's state at now. A core is lost when no lease names it
// and it was last seen longer than limit ago.
func (c Core) Next(l Liveness, now time.Time, limit time.Duration) (CoreState, string) {
	switch {
	case c.Revoked:
		return CoreRevoked, ""
	case !l.Connected && now.Sub(l.LastSeen) > limit && c.State != CoreJoined:
		return CoreLost, "no phone-home since " + l.LastSeen.UTC().Format(time.RFC3339)
	case !l.Connected:
		return c.State, c.Reason
	case !l.Dialled && l.Failure != "":
		return CoreJoined, l.Failure
	case !l.Dialled:
		return c.State, c.Reason
	case c.Drain:
		return CoreDraining, "drained by an operator"
	}
	return CoreReady, ""
}

// Entry is an entrance node.
type Entry struct {
	ID      EntryID   `json:"id"`
	Name    string    `json:"name"`
	Revoked bool      `json:"revoked,omitzero"`
	Banned  bool      `json:"banned,omitzero"` // revoked, and may not join again
	Version string    `json:"version,omitzero"`
	Joined  time.Time `json:"joined"`
	// Pod is what the entry runs as in a Kubernetes cluster; the zero value: it
	// joined with a token.
	Pod EntryPod `json:"pod,omitzero"`
}

// NodeStatus is what was last known of a node, apart from its specification.
// The server that holds the node's stream owns it and writes it when the
// stream opens, closes or acknowledges, and otherwise a few times a minute.
type NodeStatus struct {
	Node       string         `json:"node"` // role/id
	Server     ServerID       `json:"server"`
	Connected  bool           `json:"connected"`
	LastSeen   time.Time      `json:"lastSeen"`
	Observed   netip.AddrPort `json:"observed,omitzero"`
	Version    string         `json:"version,omitzero"`
	Instance   string         `json:"instance,omitzero"` // made with the state folder
	Boot       int64          `json:"boot,omitzero"`     // rises with each stream of the node
	Start      int64          `json:"start,omitzero"`    // boot of the first stream since the node started
	ClockOff   time.Duration  `json:"clockOffset,omitzero"`
	Streams    int64          `json:"streams,omitzero"`
	ConfigRev  int64          `json:"configRevision,omitzero"`      // acknowledged as running
	RefusedRev int64          `json:"refusedRevision,omitzero"`     // configuration that it refused last
	DevicesRev int64          `json:"devicesRevision,omitzero"`     // acknowledged, cores only
	RevokedRev int64          `json:"revocationsRevision,omitzero"` // acknowledged
	Failure    string         `json:"failure,omitzero"`             // why the node does not run what it was sent
	// HandedEpoch is the last epoch of the mesh in which the node has handed over
	// the revocations it keeps.
	HandedEpoch int64 `json:"handedEpoch,omitzero"`
	// Certificate is the serial of the one the node holds, as it says itself.
	Certificate string `json:"certificate,omitzero"`
	// Policy is whether a pod found the way shut that its NetworkPolicy forbids.
	Policy KubePolicy `json:"policy,omitzero"`
}
