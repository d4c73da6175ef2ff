package mgmt

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/gossip"
)

// tell tells the others by gossip who this is.
func (x *former) tell() {
	f := gossip.Facts{
		Server: x.state.Server, Name: x.state.Name, Version: x.srv.Version, State: "founding", Address: x.addresses[0], Peer: x.srv.Config.peerURL(),
	}
	if err := x.gossip.SetFacts(f); err != nil {
		x.log.Warn("gossip not told", "err", err)
	}
}

// expected are all servers that found together, the lowest name first, or one
// line that says why they are not there.
func (x *former) expected(ctx context.Context) ([]gossip.Seen, string) {
	all := x.gossip.Members()
	names := map[string]gossip.Seen{}
	for _, m := range all {
		if other, twice := names[m.Name]; twice {
			return nil, fmt.Sprintf("two servers have the name %q, at %s and %s: give one of them another --name", m.Name, other.From, m.From)
		}
		names[m.Name] = m
		if m.Mesh != "" {
			return nil, fmt.Sprintf("server %q at %s belongs to the mesh %s already, which this server has no part in: empty its folder, or let this one in: meshctl admin mgmt add %s", m.Name, m.From, m.Mesh, x.state.Name)
		}
	}
	want := x.srv.Config.BootstrapExpect
	switch {
	case len(all) > want:
		return nil, fmt.Sprintf("%d servers are there, %d are expected: %s", len(all), want, strings.Join(seenNames(all), ", "))
	case len(all) < want:
		return nil, x.missing(ctx, all, want)
	}
	return all, ""
}

func (x *former) missing(ctx context.Context, all []gossip.Seen, want int) string {
	lines := []string{fmt.Sprintf("%d of %d servers are there", len(all), want)}
	if len(all) > 0 { // none before this one is heard itself
		lines[0] += " (" + strings.Join(seenNames(all), ", ") + ")"
	}
	var away []string
	for _, p := range gossipPeers(x.srv.Config.Peers) {
		if !slices.ContainsFunc(gossip.Resolve(ctx, p), func(a netip.AddrPort) bool {
			return a.String() == x.srv.Config.gossipAddress() || slices.ContainsFunc(all, func(m gossip.Seen) bool { return m.From == a })
		}) {
			away = append(away, p)
		}
	}
	if len(away) > 0 {
		lines = append(lines, "waiting for "+strings.Join(away, ", "))
	}
	for _, a := range x.gossip.Foreign() {
		lines = append(lines, fmt.Sprintf("a server at %s has another bootstrap secret, or is in a mesh already", a))
	}
	return strings.Join(lines, "; ")
}

func seenNames(all []gossip.Seen) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.Name)
	}
	return out
}
