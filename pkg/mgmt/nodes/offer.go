package nodes

import (
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// offer is the configuration of a group as its nodes get it: each without and
// with the order to drain, which is a node's own and is not tried out.
type offer struct {
	running, trial [2]*controlpb.Config
	canary         string // role/id of who gets trial
}

func newOffer(r mesh.Rollout) *offer {
	o := &offer{running: configMessages(r.Running), canary: r.Canary}
	if r.Canary != "" {
		o.trial = configMessages(r.Trial)
	}
	return o
}

// of is what one node gets; nil while nothing is known of its group.
func (o *offer) of(node string, drain bool) *controlpb.Config {
	i := 0
	if drain {
		i = 1
	}
	switch {
	case o == nil:
		return nil
	case o.canary == node:
		return o.trial[i]
	}
	return o.running[i]
}

func configMessages(c mesh.NodeConfig) [2]*controlpb.Config {
	var out [2]*controlpb.Config
	for i, drain := range []bool{false, true} {
		out[i] = &controlpb.Config{
			Revision:          wireRevision(c.Revision, drain),
			StaleIfErrorNanos: int64(c.StaleIfError),
			CellId:            string(c.Cell),
			CellSuffix:        string(c.CellSuffix),
			CellCertificate:   string(c.CellCertificate),
			Drain:             drain,
			MeshAddresses:     c.MeshAddresses,
			WebsocketPaths:    c.WebSocketPaths,
			GrpcServices:      c.GRPCServices,
		}
		for _, o := range c.Offers {
			out[i].Offers = append(out[i].Offers, o.String())
		}
		for _, s := range c.Suffixes {
			out[i].Suffixes = append(out[i].Suffixes, string(s))
		}
	}
	return out
}

// wireRevision tells what one node gets apart from all else it may get: the
// group's configuration, and whether the node is to drain. It is the same on
// every server.
func wireRevision(rev int64, drain bool) int64 {
	if drain {
		return 2*rev + 1
	}
	return 2 * rev
}

// groupRevision is the revision of the group's configuration in that of a node.
func groupRevision(wire int64) int64 { return wire / 2 }

// wantedConfigs is what each group should run at now.
func wantedConfigs(cells map[mesh.CellID]mesh.Cell, config mesh.Config, own []string, now time.Time) map[string]mesh.NodeConfig {
	entries := mesh.NodeConfig{StaleIfError: config.StaleIfError}
	out := map[string]mesh.NodeConfig{}
	for id, c := range cells {
		out[string(id)] = mesh.CellConfig(c, own, now)
		if c.State != mesh.CellRetired {
			entries.Suffixes = append(entries.Suffixes, c.Suffix)
		}
	}
	if n := config.Subscription.Name; n != "" {
		entries.Suffixes = append(entries.Suffixes, n)
	}
	slices.Sort(entries.Suffixes)
	out[mesh.EntriesGroup] = entries
	return out
}

// nextPathEnd is when the next path of a cell ends after now; zero: none does.
func nextPathEnd(cells map[mesh.CellID]mesh.Cell, now time.Time) time.Time {
	var next time.Time
	for _, c := range cells {
		for _, p := range c.Paths {
			if p.NotAfter.After(now) {
				next = sooner(next, p.NotAfter)
			}
		}
	}
	return next
}

// groupsOf are the nodes of each group. What a node runs is of use while it is
// connected only.
func groupsOf(cores map[mesh.CoreID]mesh.Core, entries map[mesh.EntryID]mesh.Entry, status map[string]mesh.NodeStatus) map[string][]mesh.GroupNode {
	out := map[string][]mesh.GroupNode{}
	add := func(group, node string) {
		st := status[node]
		out[group] = append(out[group], mesh.GroupNode{
			Node: node, Connected: st.Connected, Runs: groupRevision(st.ConfigRev), Refused: groupRevision(st.RefusedRev), Failure: st.Failure,
		})
	}
	for id, c := range cores {
		if !c.Revoked {
			add(string(c.Cell), nodeOf(mesh.RoleCore, string(id)))
		}
	}
	for id, e := range entries {
		if !e.Revoked {
			add(mesh.EntriesGroup, nodeOf(mesh.RoleEntry, string(id)))
		}
	}
	return out
}

// trialEnds is when the canary has had its time; zero: none is on trial.
func trialEnds(r mesh.Rollout, patience time.Duration) time.Time {
	if r.Canary == "" {
		return time.Time{}
	}
	return r.Since.Add(patience)
}
