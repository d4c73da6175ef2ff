package mesh

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// EntriesGroup is the group of all entries; the cores of a cell are the group
// with the cell's id.
const EntriesGroup = "entries"

// NodeConfig is what management tells every node of a group.
type NodeConfig struct {
	// Revision tells configurations of a group apart; 0 is none. A later one
	// has a higher revision.
	Revision int64 `json:"revision"`

	Suffixes     []ServerName `json:"suffixes,omitzero"`     // entries
	StaleIfError Duration     `json:"staleIfError,omitzero"` // entries

	Cell            CellID          `json:"cell,omitzero"`            // cores
	CellSuffix      ServerName      `json:"cellSuffix,omitzero"`      // cores
	CellCertificate CellCertificate `json:"cellCertificate,omitzero"` // cores
	MeshAddresses   []string        `json:"meshAddresses,omitzero"`   // cores
	// Offers are the ways in that cores answer, at the paths and services below.
	Offers         []Offer  `json:"offers,omitzero"`
	WebSocketPaths []string `json:"webSocketPaths,omitzero"`
	GRPCServices   []string `json:"grpcServices,omitzero"`
}

// CellConfig is what the cores of a cell are to run at now. own are the addresses
// of the mesh itself.
func CellConfig(c Cell, own []string, now time.Time) NodeConfig {
	n := NodeConfig{
		Cell: c.ID, CellSuffix: c.Suffix, CellCertificate: c.Certificate, MeshAddresses: own,
		Offers: c.Offered(),
	}
	for _, p := range c.PathsAt(now) {
		n.WebSocketPaths = append(n.WebSocketPaths, p.WebSocket)
		n.GRPCServices = append(n.GRPCServices, p.GRPC)
	}
	return n
}

// Answers are the newest of the cell's paths that cores who run n answer: while a
// rotation is being rolled out, or is parked, not the newest of all.
func (n NodeConfig) Answers(c Cell, now time.Time) (Paths, bool) {
	for _, p := range slices.Backward(c.PathsAt(now)) {
		if slices.Contains(n.WebSocketPaths, p.WebSocket) && slices.Contains(n.GRPCServices, p.GRPC) {
			return p, true
		}
	}
	return Paths{}, false
}

// Says says whether two configurations say the same, whatever their revisions.
func (c NodeConfig) Says(o NodeConfig) bool {
	c.Revision = o.Revision
	return reflect.DeepEqual(c, o)
}

// Rollout is how a changed configuration reaches a group of nodes: one node
// first, the canary, and the others once that runs it.
//
//	        ┌───────────── another is wanted, or the canary went away once
//	        ▼                                    │
//	running ──canary chosen──▶ on trial ─────────┤
//	   ▲ ▲                        │ canary runs it ─▶ running, by all
//	   │ └──── another is wanted  └ refuses it, is silent, or the second goes away
//	   └──────────── parked ◀────────────┘          meanwhile
//
// What is parked is not tried again until something else was wanted. The leader
// among the servers owns it.
type Rollout struct {
	Group   string     `json:"group"`
	Running NodeConfig `json:"running"` // what all run but the canary

	Trial  NodeConfig `json:"trial,omitzero"`
	Canary string     `json:"canary,omitzero"` // role/id of who has Trial
	Since  time.Time  `json:"since,omitzero"`  // when the canary was chosen
	Tried  []string   `json:"tried,omitzero"`  // canaries that went away with it

	Parked NodeConfig `json:"parked,omitzero"`
	Reason string     `json:"reason,omitzero"` // why Parked is
}

// For is the configuration of one node of the group.
func (r Rollout) For(node string) NodeConfig {
	if r.Trial.Revision != 0 && r.Canary == node {
		return r.Trial
	}
	return r.Running
}

// GroupNode is a node of a group as its roll-out sees it.
type GroupNode struct {
	Node      string // role/id
	Connected bool
	Runs      int64  // revision it runs
	Refused   int64  // revision it refused last
	Failure   string // why
}

// maxTries is how many canaries may go away with a configuration before it is
// blamed for that.
const maxTries = 2

// Next decides what becomes of the roll-out when want is to run. rev is a
// revision above those that nodes may have from elsewhere. A canary has patience
// to say whether it runs its configuration.
func (r Rollout) Next(want NodeConfig, nodes []GroupNode, rev int64, now time.Time, patience time.Duration) Rollout {
	want.Revision = max(rev, 1+max(r.Running.Revision, r.Trial.Revision, r.Parked.Revision))
	if r.Trial.Revision != 0 && !r.Trial.Says(want) {
		r = r.untried()
	}
	switch {
	case r.Running.Says(want):
		r = r.untried()
		r.Parked, r.Reason = NodeConfig{}, ""
		return r
	case len(nodes) == 0, r.Running.Revision == 0:
		return Rollout{Group: r.Group, Running: want}
	case r.Trial.Revision == 0 && r.Parked.Revision != 0 && r.Parked.Says(want):
		return r
	case r.Canary != "":
		if r = r.judge(nodes, now, patience); r.Canary != "" || r.Trial.Revision == 0 {
			return r
		}
	}
	canary := r.choose(nodes)
	if canary == "" {
		return r
	}
	if r.Trial.Revision == 0 {
		r.Trial = want
	}
	r.Canary, r.Since = canary, now
	return r
}

// untried forgets what is on trial.
func (r Rollout) untried() Rollout {
	r.Trial, r.Canary, r.Since, r.Tried = NodeConfig{}, "", time.Time{}, nil
	return r
}

// judge looks at how the canary fares.
func (r Rollout) judge(nodes []GroupNode, now time.Time, patience time.Duration) Rollout {
	i := slices.IndexFunc(nodes, func(n GroupNode) bool { return n.Node == r.Canary })
	var n GroupNode
	if i >= 0 {
		n = nodes[i]
	}
	switch {
	case n.Runs == r.Trial.Revision:
		return Rollout{Group: r.Group, Running: r.Trial}
	case n.Refused == r.Trial.Revision:
		return r.park(fmt.Sprintf("%s refused it: %s", r.Canary, n.Failure))
	case i >= 0 && now.Sub(r.Since) < patience:
		return r
	case n.Connected:
		return r.park(fmt.Sprintf("%s did not say within %v that it runs it", r.Canary, patience))
	}
	r.Tried, r.Canary = append(slices.Clone(r.Tried), r.Canary), ""
	if len(r.Tried) >= maxTries {
		return r.park(strings.Join(r.Tried, " and ") + " went away with it")
	}
	return r
}

// park gives the configuration on trial up.
func (r Rollout) park(reason string) Rollout {
	parked := r.Trial
	r = r.untried()
	r.Parked, r.Reason = parked, reason
	return r
}

// choose picks who tries a configuration: of the nodes that are connected one
// that runs what it should and has not tried before, if there is one; always the
// same of several.
func (r Rollout) choose(nodes []GroupNode) string {
	rank := func(n GroupNode) int {
		switch {
		case slices.Contains(r.Tried, n.Node):
			return 2
		case n.Failure != "" || n.Runs != r.Running.Revision:
			return 1
		}
		return 0
	}
	var best GroupNode
	for _, n := range nodes {
		if !n.Connected {
			continue
		}
		if best.Node == "" || rank(n) < rank(best) || rank(n) == rank(best) && n.Node < best.Node {
			best = n
		}
	}
	return best.Node
}
